/**
 * The name of a fork in the making is free when its creator has been silent for a while, by the clock of the group's
 * leader. After a leader whose clock was ahead, that would take until this clock gets there: an hour, or for good. So
 * the leader abandons such a fork when a request wants its name, before that request and by a command that any version
 * knows.
 */
import { RowDamage } from '../../base/row-damage.ts';
import { readText } from '../../base/text.ts';
import type { Command } from '../../protocol/command.ts';
import { type CommandFields, newCommandFields } from '../../protocol/command-fields.ts';
import { COMMANDS } from '../../protocol/operations.ts';
import { PROVISIONAL_SILENCE_MS } from '../core/head.ts';
import type { State } from '../core/state.ts';

/** The command that abandons the fork in the way of `command`, if that fork's clock was ahead. */
export function earlyFork(state: State, command: Command, nowMs: number): CommandFields | undefined {
  const { kind, bytes, keyAt, keyBytes } = command;
  if (kind !== COMMANDS.create.number && kind !== COMMANDS.forkBegin.number) return undefined;
  try {
    const head = state.findAny(bytes, keyAt, keyBytes);
    // By a clock that can be trusted, it would be over by then.
    if (head?.provisional !== true || head.expired(nowMs + 2 * PROVISIONAL_SILENCE_MS)) return undefined;
    const { token: forkToken } = state.forks.origin(head.incarnation);
    // A repetition of its own beginning.
    if (forkToken === command.forkToken) return undefined;
    const { bucketBytes } = head;
    const bucket = readText(bytes, keyAt, bucketBytes);
    const stream = readText(bytes, keyAt + bucketBytes + 1, keyBytes - bucketBytes - 1);
    return Object.assign(newCommandFields(), { kind: COMMANDS.forkAbort.number, bucket, stream, forkToken });
  } catch (error) {
    // The command itself meets the row, and is answered.
    if (error instanceof RowDamage) return undefined;
    throw error;
  }
}
