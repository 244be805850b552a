/**
 * Two nodes report about their data directories (protocol 3): their cluster, the directory, and its run. Each also
 * reports what it remembers of the other's. So a node whose directory is another one than before, or an older copy of
 * it, learns first of all that its log and votes are not reliable.
 *
 *   identity text | directory text | incarnation f64 | remembers u8 | (directory text | incarnation f64 | boot f64)
 *
 * From protocol 9 on the runs follow whose loss each of the two directories had noticed. A node that has just lost its
 * disk learns from them which memories of it are older still.
 *
 *   starts | (starts);  starts: count u8 | (directory text | incarnation f64) each
 */
import { type Reader, type Writer, textFieldBytes } from '../../base/cursor.ts';

/** A start of a process on a data directory. */
export interface DirectoryStart {
  /** 16 hex digits, drawn when the directory was created; empty: from a version without them. */
  readonly directory: string;
  /** Counts the starts on this directory. */
  readonly incarnation: number;
}

/** A run of a process on a data directory. */
export interface DirectoryRun extends DirectoryStart {
  /** Distinguishes runs with the same incarnation. */
  readonly boot: number;
}

/** A run of another node, and the earlier runs of that node whose loss it had noticed, the latest last. */
export interface RememberedRun extends DirectoryRun {
  readonly settled: readonly DirectoryStart[];
}

export interface Standing extends DirectoryStart {
  /** Identity of the cluster, 32 hex digits; empty: this node does not know it yet. */
  readonly identity: string;
  /** Earlier runs of this node whose loss it has noticed, the latest last. */
  readonly settled: readonly DirectoryStart[];
  /** The last run of the other node that this node linked to. */
  readonly remembers: RememberedRun | undefined;
}

/**
 * Settled runs that a node tells of itself or of another, 26 bytes each: a hello stays small, and a node that
 * lost more disks than that while one peer was away is allowed to rejoin once more.
 */
export const SETTLED_SAID_MAX = 8;

/** More of them than any peer tells are kept. */
const STARTS_MAX = 64;

/**
 * Each directory once, with its highest start, and in order, because only the last few are told: those that are in both
 * lists have the place of the later one.
 */
export function joinStarts(earlier: readonly DirectoryStart[], later: readonly DirectoryStart[]): DirectoryStart[] {
  const joined = new Map<string, DirectoryStart>();
  for (const run of [...earlier, ...later]) {
    const known = joined.get(run.directory);
    joined.delete(run.directory);
    joined.set(run.directory, known !== undefined && known.incarnation > run.incarnation ? known : run);
  }
  return [...joined.values()].slice(-STARTS_MAX);
}

const NO_STANDING: Standing = { identity: '', directory: '', incarnation: 0, settled: [], remembers: undefined };
const IDENTITY = /^(?:[0-9a-f]{32})?$/;
const DIRECTORY = /^(?:[0-9a-f]{16})?$/;

/** `saysSettled`: the peer speaks protocol 9. */
export function standingBytes(standing: Standing = NO_STANDING, saysSettled = true): number {
  const { identity, directory, settled, remembers } = standing;
  const own = textFieldBytes(identity) + textFieldBytes(directory) + 9 + (saysSettled ? startsBytes(settled) : 0);
  if (remembers === undefined) return own;
  const remembered = textFieldBytes(remembers.directory) + 16;
  return own + remembered + (saysSettled ? startsBytes(remembers.settled) : 0);
}

export function writeStanding(writer: Writer, standing: Standing = NO_STANDING, saysSettled = true): void {
  const { identity, directory, incarnation, settled, remembers } = standing;
  writer.text(identity);
  writer.text(directory);
  writer.int53(incarnation);
  writer.u8(remembers === undefined ? 0 : 1);
  if (remembers !== undefined) {
    writer.text(remembers.directory);
    writer.int53(remembers.incarnation);
    writer.int53(remembers.boot);
  }
  if (!saysSettled) return;
  writeStarts(writer, settled);
  if (remembers !== undefined) writeStarts(writer, remembers.settled);
}

export function readStanding(reader: Reader, saysSettled = true): Standing {
  const identity = reader.text();
  const { directory, incarnation } = readStart(reader);
  const flag = reader.u8();
  const run = flag === 0 ? undefined : { ...readStart(reader), boot: reader.int53() };
  if (!IDENTITY.test(identity) || flag > 1) reader.fail();
  const settled = saysSettled ? readStarts(reader) : [];
  const remembers = run && { ...run, settled: saysSettled ? readStarts(reader) : [] };
  return { identity, directory, incarnation, settled, remembers };
}

function readStart(reader: Reader): DirectoryStart {
  const directory = reader.text();
  const incarnation = reader.int53();
  if (!DIRECTORY.test(directory)) reader.fail();
  return { directory, incarnation };
}

/** The last of them, behind their number. */
function said(starts: readonly DirectoryStart[]): readonly DirectoryStart[] {
  return starts.slice(-SETTLED_SAID_MAX);
}

export function startsBytes(starts: readonly DirectoryStart[]): number {
  return said(starts).reduce((bytes, { directory }) => bytes + textFieldBytes(directory) + 8, 1);
}

export function writeStarts(writer: Writer, starts: readonly DirectoryStart[]): void {
  const written = said(starts);
  writer.u8(written.length);
  for (const { directory, incarnation } of written) {
    writer.text(directory);
    writer.int53(incarnation);
  }
}

export function readStarts(reader: Reader): readonly DirectoryStart[] {
  const count = reader.u8();
  if (count > SETTLED_SAID_MAX) reader.fail();
  return Array.from({ length: Math.min(count, SETTLED_SAID_MAX) }, () => readStart(reader));
}
