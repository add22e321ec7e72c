/* SPDX-License-Identifier: Apache-2.0
 * Printing of vectors as JSON: groups of named numbers, and of fields as [offset, size]. */
#ifndef VECTORS_PRINT_H
#define VECTORS_PRINT_H
#include <stddef.h>
#include <stdio.h>

static int first = 1;

static inline void comma(void) {
    if (!first)
        printf(",\n");
    first = 0;
}

static inline void begin(const char *name) {
    comma();
    printf("    \"%s\": {\n", name);
    first = 1;
}

/* The entry without a name is the size of the whole. */
static inline void structure(const char *name, size_t size) {
    begin(name);
    printf("      \"\": [0, %zu]", size);
    first = 0;
}

static inline void end(void) {
    printf("\n    }");
    first = 0;
}

#define C(name) (comma(), printf("      \"%s\": %lld", #name, (long long)(name)))
#define F(type, field)                                                                                                 \
    (comma(),                                                                                                          \
     printf("      \"%s\": [%zu, %zu]", #field, offsetof(struct type, field), sizeof(((struct type *)0)->field)))
#endif
