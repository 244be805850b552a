/** Stage 2: the shard threads have loaded their groups, and the gateway reaches them. A cold store has proved itself. */
import { type ColdStore, startColdStore } from '../cold/service/start.ts';
import type { Config } from '../config/config.ts';
import { Gateway } from '../gateway/gateway.ts';
import { type Logger, createLogger } from '../logging/logger.ts';
import { ShedState } from '../placement/shed-state.ts';
import type { Claim } from './claim.ts';
import { beginRun } from './directory-run.ts';
import { Membership } from './node-identity.ts';
import { endOnFailure } from './process.ts';
import { PROCESS_RUNTIME } from './runtime.ts';
import { Shards, clusterOf } from './shards.ts';

export interface Core {
  readonly gateway: Gateway;
  readonly shards: Shards;
  readonly membership: Membership;
  readonly cold: ColdStore | undefined;
  readonly drainMark: ShedState;
}

export async function startCore(config: Config, claim: Claim, log: Logger): Promise<Core> {
  const { layout, wasDraining } = claim;
  const { dataDir } = config.storage;
  const cold = await startColdStore(config, {
    shardCount: layout.shardCount,
    runtime: PROCESS_RUNTIME,
    log: createLogger('cold'),
  });
  const shards = new Shards({
    count: layout.shardCount,
    groupCount: layout.groupCount,
    nodeId: layout.nodeId,
    dataDir,
    cluster: clusterOf(config),
    draining: wasDraining,
    cold,
    uncommittedBytesMax: config.raft.maxUncommittedBytesPerGroup,
    onFailure: endOnFailure(log),
  });
  const gateway = new Gateway(layout.groupCount, shards.links, (error) =>
    log.error({ err: error }, 'an answer could not be delivered'),
  );
  cold?.serve(gateway);
  const single = clusterOf(config) === undefined;
  const directory = await beginRun(dataDir, layout, { shards, single, log });
  const membership = new Membership(dataDir, directory, log, endOnFailure(log));
  shards.begin(membership);
  await shards.ready();
  const drainMark = new ShedState({ gateway, dataDir, runtime: PROCESS_RUNTIME }, wasDraining);
  // Before traffic. Shards already start in no-lead mode.
  await drainMark.apply();
  if (wasDraining)
    log.warn('this node is marked for maintenance: it gives its leaderships away until the mark is lifted');
  return { gateway, shards, membership, cold, drainMark };
}
