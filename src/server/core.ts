/** Stage 2: the shard threads have loaded their groups, and the gateway reaches them. A cold store was tried. */
import { type ColdStore, startColdStore } from '../cold/service/start.ts';
import type { Config } from '../config/config.ts';
import { Gateway } from '../gateway/gateway.ts';
import { newJsonPool } from './json-pool.ts';
import { ShedState } from '../placement/shed-state.ts';
import type { Claim } from './claim.ts';
import { beginRun } from './directory-run.ts';
import { watchLogs } from './log-watch.ts';
import { NodeMembership } from './node-identity.ts';
import type { Host, Opened } from './host.ts';
import { clusterOf } from './cluster-data.ts';
import { Shards } from './shards.ts';

export interface CoreOptions {
  readonly config: Config;
  readonly host: Host;
  readonly claim: Claim;
}

export interface NodeCore {
  readonly gateway: Gateway;
  readonly shards: Shards;
  readonly membership: NodeMembership;
  readonly cold: ColdStore | undefined;
  readonly drainMark: ShedState;
}

export async function startCore({ config, host, claim }: CoreOptions, opened: Opened): Promise<NodeCore> {
  const { layout, wasDraining } = claim;
  const { dataDir } = config.storage;
  const { runtime, log } = host;
  const logger = log.logger('server');
  const cold = await startColdStore(config, { shardCount: layout.shardCount, runtime, log: log.logger('cold') });
  opened.cold = cold;
  const shards = new Shards({
    count: layout.shardCount,
    groupCount: layout.groupCount,
    nodeId: layout.nodeId,
    dataDir,
    cluster: clusterOf(config),
    draining: wasDraining,
    cold,
    uncommittedBytesMax: config.raft.maxUncommittedBytesPerGroup,
    tickMs: host.tickMs,
    startThread: host.startThread,
    log,
    onFailure: host.fail,
  });
  opened.shards = shards;
  shards.start();
  watchLogs(shards.logs, runtime, logger);
  const gateway = new Gateway(layout.groupCount, shards.links, (error) =>
    logger.error({ err: error }, 'an answer could not be delivered'),
  );
  opened.gateway = gateway;
  cold?.serve(gateway);
  const json = newJsonPool(runtime, (error) => logger.error({ err: error }, 'a thread for JSON bodies failed'));
  opened.json = json;
  gateway.useJsonPool((task) => json.run(task, [task.body]));
  const single = clusterOf(config) === undefined;
  const directory = await beginRun(dataDir, layout, { shards, single, log: logger });
  const membership = new NodeMembership(dataDir, directory, logger, host.fail);
  shards.begin(membership);
  await shards.ready();
  const drainMark = new ShedState({ gateway, dataDir, runtime }, wasDraining);
  // Before traffic. Shards already start in no-lead mode.
  await drainMark.apply();
  if (wasDraining)
    logger.warn('this node is marked for maintenance: it gives its leaderships away until the mark is lifted');
  return { gateway, shards, membership, cold, drainMark };
}
