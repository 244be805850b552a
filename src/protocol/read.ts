/** Read: bytes or records of a stream from a position on. The hot path of readers: requests and answers are reused objects. */
import { query } from './operation.ts';

export const read = query({ number: 32, scope: 'stream', needsLeaders: false, duringImport: false });
