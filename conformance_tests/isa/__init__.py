"""The compile matrix: the kernels of every vendor whose compiler is here, their instructions, their resources."""
