/**
 * Two nodes report about their data directories (protocol 3): their cluster, the directory, and its run. Each also
 * reports what it remembers of the other's. So a node whose directory is another one than before, or an older copy of
 * it, learns first of all that its log and votes are not reliable.
 *
 *   identity text | directory text | incarnation f64 | remembers u8 | (directory text | incarnation f64 | boot f64)
 */
import { type Reader, type Writer, textFieldBytes } from '../../base/cursor.ts';

/** A run of a process on a data directory. */
export interface DirectoryRun {
  /** 16 hex digits, drawn when the directory was created; empty: from a version without them. */
  readonly directory: string;
  /** Counts the starts on this directory. */
  readonly incarnation: number;
  /** Distinguishes runs with the same incarnation. */
  readonly boot: number;
}

export interface Standing {
  /** Identity of the cluster, 32 hex digits; empty: this node does not know it yet. */
  readonly identity: string;
  readonly directory: string;
  readonly incarnation: number;
  /** The last run of the other node that this node linked to. */
  readonly remembers: DirectoryRun | undefined;
}

const NO_STANDING: Standing = { identity: '', directory: '', incarnation: 0, remembers: undefined };
const IDENTITY = /^(?:[0-9a-f]{32})?$/;
const DIRECTORY = /^(?:[0-9a-f]{16})?$/;

export function standingBytes({ identity, directory, remembers }: Standing = NO_STANDING): number {
  const own = textFieldBytes(identity) + textFieldBytes(directory) + 9;
  return remembers === undefined ? own : own + textFieldBytes(remembers.directory) + 16;
}

export function writeStanding(writer: Writer, standing: Standing = NO_STANDING): void {
  const { identity, directory, incarnation, remembers } = standing;
  writer.text(identity);
  writer.text(directory);
  writer.int53(incarnation);
  writer.u8(remembers === undefined ? 0 : 1);
  if (remembers === undefined) return;
  writer.text(remembers.directory);
  writer.int53(remembers.incarnation);
  writer.int53(remembers.boot);
}

export function readStanding(reader: Reader): Standing {
  const identity = reader.text();
  const directory = reader.text();
  const incarnation = reader.int53();
  const flag = reader.u8();
  const remembers =
    flag === 0 ? undefined : { directory: reader.text(), incarnation: reader.int53(), boot: reader.int53() };
  const isGood = IDENTITY.test(identity) && DIRECTORY.test(directory) && DIRECTORY.test(remembers?.directory ?? '');
  if (!isGood || flag > 1) reader.fail();
  return { identity, directory, incarnation, remembers };
}
