/** Backups of single groups, as the admin plane offers them. */
import type { Backups, ColdGraces, ExportEnd, ImportSink, Lineage } from './ports.ts';
import type { Runtime } from '../base/runtime.ts';
import { isTable } from '../base/scopes.ts';
import type { ShardGateway } from '../ports.ts';
import type { ReadCold } from '../cold/ports.ts';
import { ExportThread } from './export/export-thread.ts';
import { ExportBook } from './export/export-book.ts';
import { ExportHistory } from './export/export-history.ts';
import { exportGroup } from './export/exporter.ts';
import { Import, importHost } from './import/importer.ts';
import { ExportPace } from './export/pace.ts';

export interface WarningLog {
  warn(fields: object, message: string): void;
}

export interface RunningBackups extends Backups {
  /** Exports that are running may end, or are cut. */
  stopping(): void;
  /** Call before the shards stop. Running exports are cut. */
  stop(): Promise<void>;
}

export interface BackupsOptions {
  readonly gateway: ShardGateway;
  /** Number of requests that this node has accepted so far. */
  readonly requests: () => number;
  /** The node's directory: uploads that arrive faster than the log accepts them wait there, and what is known of exports lies there. */
  readonly directory: string;
  /** Directories of the stores, in shard order. */
  readonly shardDirectories: readonly string[];
  readonly readCold: ReadCold | undefined;
  readonly coldGraces: ColdGraces | undefined;
  /** The cluster whose backups these are, and the backups that were imported. */
  readonly membership: { readonly lineage: Lineage; restored(clusterId: string): void };
  readonly log: WarningLog;
  readonly runtime: Runtime;
}

export function openBackups({
  gateway,
  requests,
  directory,
  shardDirectories,
  readCold,
  coldGraces,
  membership,
  log,
  runtime,
}: BackupsOptions): RunningBackups {
  const readers = new ExportThread(shardDirectories, runtime);
  const pace = new ExportPace(requests, runtime);
  const delayMs = (bytes: number): number => pace.delayMs(bytes);
  const book = new ExportBook(directory);
  const history = new ExportHistory(runtime, book);
  const host = importHost(runtime);
  const begun = (group: number): void => history.begun(group);
  const over = (group: number, isWhole: boolean): void => history.over(group, isWhole);
  const endedEarly = (group: number, why: ExportEnd): void => {
    history.endedEarly(group, why);
    log.warn({ group, ...why }, 'an export ended early');
  };
  return {
    exportGroup: (group, sink) =>
      exportGroup({ gateway, readers, runtime, delayMs, begun, over, endedEarly }, group, sink),
    coldGraces,
    get lineage() {
      return membership.lineage;
    },
    get exports() {
      return history.told;
    },
    importGroup: (group, wanted, sink) => {
      const { source, digest = '' } = wanted;
      const json: ImportSink['json'] = (status, value) => {
        // A refused group may hold this very backup, when the answer to an earlier attempt was lost.
        const isHere = status === 200 || (isTable(value) && value['imported_blake3'] === digest);
        if (source !== undefined && isHere) membership.restored(source);
        sink.json(status, value);
      };
      const told = source === undefined ? sink : { ...sink, json };
      const feed = new Import(gateway, group, { ...wanted, directory, readCold }, told, host);
      feed.start();
      return feed;
    },
    stopping: () => history.stopping(),
    stop: async () => {
      await readers.stop();
      await book.settled();
    },
  };
}
