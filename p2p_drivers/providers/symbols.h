/* SPDX-License-Identifier: GPL-2.0-only */
/* A vendor's symbols, found at run time: all or none, and its module stays while they are held. */
#ifndef TUTTI_P2P_SYMBOLS_H
#define TUTTI_P2P_SYMBOLS_H

#include <linux/module.h>

/*
 * symbol_get() finds only what is exported to GPL modules. A driver that exports plainly is as good as absent here, and the
 * kernel says so in its log ("failing symbol_get of non-GPLONLY symbol"): its memory is reached as a dma-buf.
 */
static inline bool tutti_symbols_get(const char *const *names, void **symbols, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		symbols[i] = __symbol_get(names[i]);
		if (symbols[i])
			continue;
		while (i--)
			__symbol_put(names[i]);
		return false;
	}
	return true;
}

static inline void tutti_symbols_put(const char *const *names, size_t count)
{
	while (count--)
		__symbol_put(names[count]);
}

#endif /* TUTTI_P2P_SYMBOLS_H */
