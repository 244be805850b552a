/**
 * Validates the fork rows of a backup: the source of a stream, the forks of a stream, and sources still to be notified
 * of a removed fork.
 */
import { isValidUtf8 } from '../../base/utf8.ts';
import { NAME_BYTES_MAX } from '../../base/limits.ts';
import { decodeOrigin, decodePin, decodeTombstone } from '../core/fork-rows.ts';
import { compareBytes } from '../../base/bytes.ts';
import { NUL, bareIncarnationOf, barePositionOf, bareTokenOf } from '../core/keys.ts';
import { check, nameText } from './fault.ts';
import { INCARNATION_MAX } from './heads.ts';
import type { StreamEntry } from './stream-entry.ts';

const isCount = (n: number): boolean => Number.isSafeInteger(n) && n >= 0;
const isToken = (n: number): boolean => isCount(n) && n > 0;

/** bucket, NUL, stream. */
export function isStreamName(name: Uint8Array): boolean {
  const border = name.indexOf(NUL);
  return border > 0 && border < name.length - 1 && name.length <= NAME_BYTES_MAX + 1 && isValidUtf8(name);
}

export class ForkChecks {
  /** Tombstones by incarnation; true: a fork of it was found. */
  readonly #tombstones = new Map<number, { readonly name: Uint8Array; seen: boolean }>();
  maxIncarnation = 0;

  tombstone(key: Uint8Array, value: Uint8Array, streams: ReadonlyMap<number, StreamEntry>): void {
    const name = key.slice(1);
    check(isStreamName(name), 'a removed stream has an impossible name');
    const { incarnation, unpin } = decodeTombstone(value);
    const whose = `the removed stream ${nameText(name)}`;
    check(isToken(incarnation) && incarnation <= INCARNATION_MAX, `${whose} has an impossible number`);
    check(!streams.has(incarnation) && !this.#tombstones.has(incarnation), `${whose} has the number of another one`);
    check(unpin === undefined || (isToken(unpin.token) && isStreamName(unpin.source)), `${whose} is a fork of nothing`);
    this.#tombstones.set(incarnation, { name, seen: false });
    this.maxIncarnation = Math.max(this.maxIncarnation, incarnation);
  }

  origin(entry: StreamEntry, value: Uint8Array): void {
    const { token, source, anchor, subOffset } = decodeOrigin(value);
    const whose = `stream ${nameText(entry.name)}`;
    check(entry.forked, `${whose} is a fork that its head denies`);
    check(isToken(token) && isCount(subOffset), `${whose} is a fork with impossible numbers`);
    check(isStreamName(source), `${whose} is a fork of nothing`);
    const isPlaced = isCount(anchor) && (entry.provisional || anchor <= entry.tail);
    check(isPlaced || (anchor === -1 && entry.provisional), `${whose} is a fork of nowhere in its source`);
    entry.seenFork = true;
  }

  pin(key: Uint8Array, value: Uint8Array, entry: StreamEntry | undefined): void {
    const tombstone = this.#tombstones.get(bareIncarnationOf(key));
    check(entry !== undefined || tombstone !== undefined, 'a fork is kept of no stream');
    const name = (entry ?? tombstone)?.name as Uint8Array;
    const whose = `a fork of ${nameText(name)}`;
    const { fork, source } = decodePin(value);
    check(isToken(barePositionOf(key)) && isStreamName(fork), `${whose} has no name`);
    check(compareBytes(source, name) === 0, `${whose} is kept as one of another stream`);
    if (tombstone !== undefined) tombstone.seen = true;
    if (entry === undefined) return;
    check(entry.hasPins, `${whose} is denied by its head`);
    entry.seenPin = true;
  }

  unpin(key: Uint8Array, value: Uint8Array): void {
    check(
      key.length === 9 && isToken(bareTokenOf(key)) && isStreamName(value),
      'a pending fork notification is invalid',
    );
  }

  finish(streams: Iterable<StreamEntry>): void {
    if (this.#tombstones.size === 0) return;
    const names = new Set([...streams].map(({ name }) => nameText(name)));
    for (const { name, seen } of this.#tombstones.values()) {
      check(seen, `the removed stream ${nameText(name)} has no forks`);
      check(!names.has(nameText(name)), `stream ${nameText(name)} is there, and removed`);
    }
  }
}
