/** Head: what a stream is and where it ends. */
import { query } from './operation.ts';

export const head = query({ number: 33, scope: 'stream', needsLeaders: false, duringImport: false });
