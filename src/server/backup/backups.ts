/** Backups of single groups, as the admin plane offers them. */
import type { Backups } from '../../http/backup.ts';
import type { ShardGateway } from '../../ports.ts';
import type { ReadCold } from './cold-sample.ts';
import { exportGroup } from './export.ts';
import { Import } from './import.ts';

/** `directory`: for uploads that come faster than the log takes them. */
export function openBackups(gateway: ShardGateway, directory: string, readCold: ReadCold | undefined): Backups {
  return {
    exportGroup: (group, sink) => exportGroup(gateway, group, sink),
    importGroup: (group, wanted, sink) => {
      const feed = new Import(gateway, group, { ...wanted, directory, readCold }, sink);
      feed.start();
      return feed;
    },
  };
}
