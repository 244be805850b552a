/** Thread entry of the pool that verifies backups: reading, hashing and validating one group's file is one task. */
import { parentPort } from 'node:worker_threads';
import { openLocation } from '../src/backup/location.ts';
import type { GroupEntry } from '../src/backup/manifest.ts';
import { VERIFIER_LOADED, verifyGroup } from '../src/backup/verify.ts';
import { Fault } from '../src/stream/backup/fault.ts';

export interface VerifyTask {
  readonly location: string;
  readonly entry: GroupEntry;
  readonly groupCount: number;
}

/** What is wrong in a sentence, or undefined. Errors lose their class on the way between threads. */
export async function verify({ location: text, entry, groupCount }: VerifyTask): Promise<string | undefined> {
  try {
    const location = await openLocation(text, new AbortController().signal);
    try {
      await verifyGroup(location, entry, groupCount);
    } finally {
      location.close();
    }
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return error.message;
    throw error;
  }
}

// Behind what loads this file.
setImmediate(() => parentPort?.postMessage(VERIFIER_LOADED));
