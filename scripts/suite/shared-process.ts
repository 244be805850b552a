/** Several test files in one process, one after the other: `node shared-process.js FILE...`. */
import process from 'node:process';
import { pathToFileURL } from 'node:url';

for (const file of process.argv.slice(2)) await import(pathToFileURL(file).href);
