// A thread whose module throws.
throw new Error('planted: this module throws');
