// Checks a data file again and again, until it throws or is ended.
import { parentPort, workerData } from 'node:worker_threads';
import { checkDataFile } from '../../src/store/data-file.ts';

parentPort?.postMessage('begins');
for (;;) checkDataFile(workerData as string);
