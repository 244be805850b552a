/** Validates fork rows of a backup: a stream's source, its forks, and sources still to be told of a removed fork. */
import { isValidUtf8 } from '../../base/utf8.ts';
import { NAME_BYTES_MAX } from '../../base/limits.ts';
import { decodeOrigin, decodePin, decodeTombstone } from '../core/fork-rows.ts';
import { compareBytes } from '../../base/bytes.ts';
import { NUL, bareIncarnationOf } from '../core/keys.ts';
import { check, nameText } from './fault.ts';
import { type StreamParts, isIncarnation } from './stream-parts.ts';

/** bucket, NUL, stream. */
export function isStreamName(name: Uint8Array): boolean {
  const border = name.indexOf(NUL);
  return border > 0 && border < name.length - 1 && name.length <= NAME_BYTES_MAX + 1 && isValidUtf8(name);
}

export class ForkChecks {
  /** Tombstones by incarnation; `seen` once a fork of it was found. */
  readonly #tombstones = new Map<number, { readonly name: Uint8Array; seen: boolean }>();
  maxIncarnation = 0;

  tombstone(key: Uint8Array, value: Uint8Array, streams: ReadonlyMap<number, StreamParts>): void {
    const name = key.slice(1);
    check(isStreamName(name), 'a removed stream has an impossible name');
    const { incarnation, unpin } = decodeTombstone(value);
    const whose = `the removed stream ${nameText(name)}`;
    check(isIncarnation(incarnation), `${whose} has an impossible number`);
    check(!streams.has(incarnation) && !this.#tombstones.has(incarnation), `${whose} has the number of another one`);
    check(unpin === undefined || isStreamName(unpin.source), `${whose} is a fork of nothing`);
    this.#tombstones.set(incarnation, { name, seen: false });
    this.maxIncarnation = Math.max(this.maxIncarnation, incarnation);
  }

  origin({ name, provisional, tail }: StreamParts, value: Uint8Array): void {
    const { source, anchor } = decodeOrigin(value);
    check(isStreamName(source), `stream ${nameText(name)} is a fork of nothing`);
    const isPlaced = provisional || (anchor >= 0 && anchor <= tail);
    check(isPlaced, `stream ${nameText(name)} is a fork of nowhere in its source`);
  }

  pin(key: Uint8Array, value: Uint8Array, stream: StreamParts | undefined): void {
    const tombstone = this.#tombstones.get(bareIncarnationOf(key));
    const name = (stream ?? tombstone)?.name;
    check(name !== undefined, 'a fork is kept of no stream');
    const { fork, source } = decodePin(value);
    check(isStreamName(fork), `a fork of ${nameText(name)} has no name`);
    check(compareBytes(source, name) === 0, `a fork of ${nameText(name)} is kept as one of another stream`);
    if (tombstone !== undefined) tombstone.seen = true;
  }

  unpin(value: Uint8Array): void {
    check(isStreamName(value), 'a pending fork notification is invalid');
  }

  finish(streams: Iterable<StreamParts>): void {
    if (this.#tombstones.size === 0) return;
    const names = new Set([...streams].map(({ name }) => nameText(name)));
    for (const { name, seen } of this.#tombstones.values()) {
      check(seen, `the removed stream ${nameText(name)} has no forks`);
      check(!names.has(nameText(name)), `stream ${nameText(name)} is there, and removed`);
    }
  }
}
