/**
 * Keeps the subscription log short: occasionally the complete state is appended in one piece, only if no other record
 * came in between, and the log before it is dropped. A starting node reads from there.
 */
import { encodeUtf8 } from '../../base/utf8.ts';
import { snapshotDigest } from '../../digest/blake3.ts';
import type { ShardGateway } from '../../ports.ts';
import { type Position, payloadOfSnapshot } from '../../protocol/position-command.ts';
import { type ShardAnswer, callStream } from '../../gateway/shard-client.ts';
import type { Known } from './known.ts';
import { LOG } from '../state/record.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** A smaller log is not worth it. */
const BYTES_MIN = 4 * 1024 * 1024;
/** Minimum log bytes per byte of state: spreads the cost of a checkpoint. */
const FACTOR = 4;
/** Other nodes' commands come in between; the next tick tries again. */
const ATTEMPTS = 5;
/** The start offset may not pass a published snapshot. The records hold everything, so this snapshot is empty. */
const MARK = encodeUtf8('{}');
const MARK_TYPE = 'application/json';

export function checkpointDue({ machine, log }: Known, bytesMin: number = BYTES_MIN): boolean {
  return log.bytes > Math.max(bytesMin, FACTOR * machine.bytes);
}

/** False: other records came in between each time. Rejects with a MillraceError. */
export async function writeCheckpoint(gateway: ShardGateway, { machine, log }: Known): Promise<boolean> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const appended = await log.appendHere(machine.checkpoint());
    if (appended === undefined) {
      await log.barrier();
      continue;
    }
    await raiseStartOffset(gateway, {
      byRecord: true,
      value: appended.recordStart,
      // The answer says where the first record begins, even when it is in the cold store by now.
      checkedIncarnation: log.incarnation,
      checkedOffset: appended.startOffset,
      checkedRecord: appended.recordStart,
    });
    return true;
  }
  return false;
}

/** The next checkpoint repeats what fails. */
async function raiseStartOffset(gateway: ShardGateway, position: Position): Promise<ShardAnswer<unknown>> {
  const published = await callStream(gateway, COMMANDS.publishSnapshot, {
    ...LOG,
    contentType: MARK_TYPE,
    position,
    digest: snapshotDigest(MARK_TYPE, MARK),
    match: undefined,
    payload: payloadOfSnapshot(MARK),
  });
  if (published.code !== 'OK') return published;
  return await callStream(gateway, COMMANDS.retention, { ...LOG, position });
}
