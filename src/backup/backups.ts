/** Backups of single groups, as the admin plane offers them. */
import type { Backups, ColdGraces, ExportEnd, ImportSink, Lineage } from './ports.ts';
import type { ShardGateway } from '../ports.ts';
import type { ReadCold } from '../cold/ports.ts';
import { EndedExports } from './export/ended-exports.ts';
import { ExportThread } from './export/export-thread.ts';
import { exportGroup } from './export/exporter.ts';
import { Import } from './import/importer.ts';
import { Pace } from './export/pace.ts';

export interface WarningLog {
  warn(fields: object, message: string): void;
}

export interface RunningBackups extends Backups {
  /** Before the shards stop. Exports that are under way are cut. */
  stop(): Promise<void>;
}

export interface BackupsOptions {
  readonly gateway: ShardGateway;
  /** Requests that this node has taken so far. */
  readonly requests: () => number;
  /** Of the node: uploads that come faster than the log takes them wait there. */
  readonly directory: string;
  /** Of the stores, in the order of the shards. */
  readonly shardDirectories: readonly string[];
  readonly readCold: ReadCold | undefined;
  readonly coldGraces: ColdGraces | undefined;
  /** Whose backups these are, and whose came in. */
  readonly membership: { readonly lineage: Lineage; restored(clusterId: string): void };
  readonly log: WarningLog;
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
}: BackupsOptions): RunningBackups {
  const readers = new ExportThread(shardDirectories);
  const pace = new Pace(requests, () => performance.now());
  const delayMs = (bytes: number): number => pace.delayMs(bytes);
  const ended = new EndedExports(() => Date.now());
  const begun = (group: number): void => ended.begun(group);
  const endedEarly = (group: number, why: ExportEnd): void => {
    ended.ended(group, why);
    log.warn({ group, ...why }, 'an export ended early');
  };
  return {
    exportGroup: (group, sink) => exportGroup({ gateway, readers, delayMs, begun, endedEarly }, group, sink),
    coldGraces,
    get lineage() {
      return membership.lineage;
    },
    get endedExports() {
      return ended.list;
    },
    importGroup: (group, wanted, sink) => {
      const { source } = wanted;
      const json: ImportSink['json'] = (status, value) => {
        if (source !== undefined) membership.restored(source);
        sink.json(status, value);
      };
      const told = source === undefined ? sink : { ...sink, json };
      const feed = new Import(gateway, group, { ...wanted, directory, readCold }, told);
      feed.start();
      return feed;
    },
    stop: () => readers.stop(),
  };
}
