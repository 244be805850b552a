/**
 * The end of a fork: its removal left a row with the source to notify (remove.ts). The source's group removes the pin
 * and, with the last pin of a removed stream, its tombstone; that stream may itself have been a fork, and so on. Each
 * step may be repeated.
 */
import type { Command } from '../../protocol/command.ts';
import type { Reply } from '../../protocol/reply.ts';
import { readText } from '../../base/text.ts';
import { planted } from '../../base/planted.ts';
import { holdsAnything } from '../../backup/state/apply-import.ts';
import { removeStream } from '../../stream/remove.ts';
import type { State } from '../../stream/state.ts';
import { forkOf } from './form.ts';
import type { Unpin } from './rows.ts';
import { FORK_GONE } from '../../protocol/fork-gone.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** The source to notify, if any. */
export function showUnpin(unpin: Unpin | undefined, reply: Reply): void {
  if (unpin === undefined) return;
  FORK_GONE.write(reply, { token: unpin.token, source: readText(unpin.source, 0, unpin.source.length) });
}

/** Its creator abandons a fork. A complete one stays. */
export function applyForkAbort(state: State, command: Command, reply: Reply): void {
  const head = forkOf(state, command);
  if (head?.provisional === true) showUnpin(removeStream(state, head, command.nowMs), reply);
}

/** In the group of the source. */
export function applyForkUnpin(state: State, command: Command, reply: Reply): void {
  const { bytes, keyAt, keyBytes, forkToken } = command;
  const { forks } = state;
  const head = state.findAny(bytes, keyAt, keyBytes);
  if (head !== undefined) {
    if (!head.hasPins) return;
    forks.deletePin(head.incarnation, forkToken);
    head.hasPins = forks.hasPins(head.incarnation);
    state.touch(head, 0);
    return;
  }
  const tombstone = forks.tombstone(bytes, keyAt, keyBytes);
  if (tombstone === undefined) return;
  forks.deletePin(tombstone.incarnation, forkToken);
  if (forks.hasPins(tombstone.incarnation) || planted('name-kept-without-forks')) return;
  showUnpin(forks.deleteTombstone(bytes.slice(keyAt, keyAt + keyBytes), tombstone), reply);
}

/** In the group where the fork was. */
export function applyForkUnpinned(state: State, { forkToken }: Command): void {
  if (state.forks.hasUnpin(forkToken)) state.forks.deleteUnpin(forkToken);
}

/**
 * a = 1: the fork exists, or its remains still keep its source. A group that was never used had no fork either, unless
 * it was restored empty or will still be restored from the same backup as the asking group.
 */
export function applyForkCheck(state: State, command: Command, reply: Reply): void {
  const tombstone = state.forks.tombstone(command.bytes, command.keyAt, command.keyBytes);
  const kept = forkOf(state, command) !== undefined || tombstone?.unpin?.token === command.forkToken;
  const isToCome = state.imported?.phase !== 'done' && !holdsAnything(state);
  const isHere = (kept || state.forks.hasUnpin(command.forkToken)) && !planted('living-fork-taken-for-gone');
  COMMANDS.forkCheck.result.write(reply, { isThere: isHere || isToCome });
}
