// A thread that ends while it loads.
import process from 'node:process';

process.exit(3);
