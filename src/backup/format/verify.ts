/** Compares one group's file with the manifest: present, complete, unaltered, and a valid state of a group. */
import { Fault, check } from '../../stream/backup/fault.ts';
import { DocumentReader } from './document.ts';
import type { Location } from './location.ts';
import type { GroupEntry } from './manifest.ts';

const STOPPED = 'its verification was stopped';

/** A thread's message when all its modules are loaded. */
export const VERIFIER_LOADED = 'loaded';

export interface VerifyOptions {
  /** Number of groups in the whole backup. */
  readonly groupCount: number;
  /** Asked before each piece. */
  readonly isWanted: () => boolean;
}

/** Returns the names of its buckets. Throws a Fault that names the file. */
export async function verifyGroup(
  location: Location,
  entry: GroupEntry,
  { groupCount, isWanted }: VerifyOptions,
): Promise<readonly string[]> {
  try {
    check(isWanted(), STOPPED);
    const size = await location.sizeOf(entry.object);
    check(size !== undefined, 'there is no such file');
    // Encrypted files are larger; reading one tells whether it is whole.
    check(
      size === entry.bytes || location.isSealed === true,
      `it has ${size} bytes, not the ${entry.bytes} of the manifest`,
    );
    const reader = new DocumentReader(
      (head) => {
        check(head.group === entry.raft_group_id, `it is of group ${head.group}`);
        check(head.groupCount === groupCount, `it is of a cluster with ${head.groupCount} groups`);
      },
      () => undefined,
    );
    for await (const piece of location.read(entry.object, entry.bytes)) {
      check(isWanted(), STOPPED);
      reader.push(piece);
    }
    const contents = reader.end();
    check(contents.digest === entry.blake3, 'its BLAKE3 is not that of the manifest');
    const same = contents.buckets === entry.buckets && contents.streams === entry.streams;
    check(same, `it holds ${contents.buckets} buckets and ${contents.streams} streams, not what the manifest says`);
    check(contents.head.commitIndex === entry.group_commit_index, 'its commit index is not that of the manifest');
    return contents.bucketNames;
  } catch (error) {
    if (error instanceof Fault) throw new Fault(`${entry.object}: ${error.message}`);
    throw error;
  }
}
