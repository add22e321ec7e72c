/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the interpreter for which the library was built, unless the process has one. A file of its own: cffi restricts
 * what the other one sees of Python's C API.
 */
#include <Python.h>

/* NULL, or why not. Called once. The caller does not hold the interpreter's lock, before or after. */
const char *tutti_python_start(void) {
    PyConfig config;
    PyStatus status;

    if (Py_IsInitialized())
        return NULL;
    PyConfig_InitPythonConfig(&config);
    /* Signals are the program's. The name leads Python to the environment in which it was built. */
    config.install_signal_handlers = 0;
    config.parse_argv = 0;
    status = PyConfig_SetBytesString(&config, &config.program_name, TUTTI_PYTHON);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
        return status.err_msg ? status.err_msg : "the interpreter does not start";
    PyEval_SaveThread();
    return NULL;
}

int tutti_python_alive(void) { return Py_IsInitialized(); }
