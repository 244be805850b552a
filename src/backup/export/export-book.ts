/**
 * Keeps what a node knows of its exports in a small file of the data directory, so that a restart does not forget it. It is for
 * people and tools only, so it is not synced, and a file that cannot be read or written costs nothing but that knowledge.
 *
 *   exports.json   {"format":1,...} and the lists that /info shows; missing: none are known
 */
import { readFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GROUP_COUNT_MAX } from '../../base/hash.ts';
import { isTable } from '../../base/scopes.ts';
import {
  EXPORT_END_CODES,
  type EndedExport,
  type FinishedExport,
  type RunningExport,
  type ToldExports,
} from '../ports.ts';

const FILE = 'exports.json';
const FORMAT = 1;
/** Later ones have no date. */
const DATE_MS_MAX = 8.64e15;

type Row = Readonly<Record<string, unknown>>;

export class ExportBook {
  readonly #file: string;
  /** The next write; undefined: nothing waits. */
  #told: ToldExports | undefined;
  #writing: Promise<void> | undefined;

  constructor(directory: string) {
    this.#file = join(directory, FILE);
  }

  read(): Required<ToldExports> {
    const found = parse(this.#file);
    return {
      exports_running: rowsOf(found, 'exports_running').filter(isRunning),
      exports_finished: rowsOf(found, 'exports_finished').filter(isFinished),
      exports_ended_early: rowsOf(found, 'exports_ended_early').filter(isEnded),
    };
  }

  /** One write at a time; of several that wait the last is enough. */
  write(told: ToldExports): void {
    this.#told = told;
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = undefined));
  }

  /** Everything was written, or could not be. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    for (let told = this.#told; told !== undefined; told = this.#told) {
      this.#told = undefined;
      try {
        await writeFile(`${this.#file}.new`, `${JSON.stringify({ format: FORMAT, ...told })}\n`, { mode: 0o600 });
        await rename(`${this.#file}.new`, this.#file);
      } catch {
        // A full volume, as a rule, which the node reports elsewhere.
      }
    }
  }
}

/** A file that cannot be understood is as one that is missing. */
function parse(file: string): Row {
  try {
    const found = JSON.parse(readFileSync(file, 'utf8')) as unknown;
    return isTable(found) && found['format'] === FORMAT ? found : {};
  } catch {
    return {};
  }
}

function rowsOf(found: Row, list: keyof ToldExports): Row[] {
  const rows = found[list];
  return Array.isArray(rows) ? rows.filter(isTable) : [];
}

function isRunning(row: Row): row is Row & RunningExport {
  return hasGroupAndTime(row, 'since_unix_ms');
}

function isFinished(row: Row): row is Row & FinishedExport {
  return hasGroupAndTime(row, 'finished_unix_ms');
}

function isEnded(row: Row): row is Row & EndedExport {
  const code = row['code'];
  const isKnown = EXPORT_END_CODES.some((one) => one === code);
  return isKnown && typeof row['reason'] === 'string' && hasGroupAndTime(row, 'ended_unix_ms');
}

function hasGroupAndTime(row: Row, time: string): boolean {
  return isWithin(row['raft_group_id'], GROUP_COUNT_MAX - 1) && isWithin(row[time], DATE_MS_MAX);
}

function isWithin(value: unknown, most: number): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most;
}
