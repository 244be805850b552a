/** Backups of single groups, as the admin plane offers them. */
import type { Backups, ColdGraces, ExportEnd } from '../../http/backup.ts';
import type { ShardGateway } from '../../ports.ts';
import type { ReadCold } from './cold-sample.ts';
import { shardDirectory } from '../shards.ts';
import { EndedExports } from './ended-exports.ts';
import { ExportThread } from './export-thread.ts';
import { exportGroup } from './export.ts';
import { Import } from './import.ts';
import { Pace } from './pace.ts';

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
  /** Of the node; uploads that come faster than the log takes them wait there too. */
  readonly directory: string;
  readonly readCold: ReadCold | undefined;
  readonly coldGraces: ColdGraces | undefined;
  readonly log: WarningLog;
}

export function openBackups({
  gateway,
  requests,
  directory,
  readCold,
  coldGraces,
  log,
}: BackupsOptions): RunningBackups {
  const directories = Array.from({ length: gateway.shardCount }, (_, shard) => shardDirectory(directory, shard));
  const readers = new ExportThread(directories);
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
    get endedExports() {
      return ended.list;
    },
    importGroup: (group, wanted, sink) => {
      const feed = new Import(gateway, group, { ...wanted, directory, readCold }, sink);
      feed.start();
      return feed;
    },
    stop: () => readers.stop(),
  };
}
