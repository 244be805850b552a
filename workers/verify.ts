/** Thread entry of the pool that verifies backups: reading, hashing and validating one group's file is one task. */
import process from 'node:process';
import { parentPort } from 'node:worker_threads';
import { openBackup } from '../src/backup/format/sealed-location.ts';
import type { GroupEntry } from '../src/backup/format/manifest.ts';
import { VERIFIER_LOADED, verifyGroup } from '../src/backup/format/verify.ts';
import type { AgeKeys } from '../src/encryption/age.ts';
import { Fault } from '../src/stream/backup/fault.ts';

export interface VerifyTask {
  readonly location: string;
  /** Undefined: the backup is not encrypted. */
  readonly keys: AgeKeys | undefined;
  readonly entry: GroupEntry;
  readonly groupCount: number;
  /** Not 0 when the result is no longer wanted. */
  readonly stop: Int32Array;
}

/** Errors lose their class on the way between threads, so what is wrong is a sentence. */
export type Verified = { readonly fault: string } | { readonly bucketNames: readonly string[] };

export async function verify({ location: text, keys, entry, groupCount, stop }: VerifyTask): Promise<Verified> {
  try {
    const location = await openBackup(text, { signal: new AbortController().signal, env: process.env, keys });
    try {
      return {
        bucketNames: await verifyGroup(location, entry, { groupCount, isWanted: () => Atomics.load(stop, 0) === 0 }),
      };
    } finally {
      location.close();
    }
  } catch (error) {
    if (error instanceof Fault) return { fault: error.message };
    throw error;
  }
}

// Behind what loads this file.
setImmediate(() => parentPort?.postMessage(VERIFIER_LOADED));
