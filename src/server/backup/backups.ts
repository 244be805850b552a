/** Backups of single groups, as the admin plane offers them. */
import type { Backups } from '../../http/backup.ts';
import type { ShardGateway } from '../../ports.ts';
import { exportGroup } from './export.ts';
import { Import } from './import.ts';

export function openBackups(gateway: ShardGateway): Backups {
  return {
    exportGroup: (group, sink) => exportGroup(gateway, group, sink),
    importGroup: (group, digest, sink) => {
      const feed = new Import(gateway, group, digest, sink);
      feed.start();
      return feed;
    },
  };
}
