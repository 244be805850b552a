// Servers that form one cluster on loopback: nodes in the process of the test, or processes. Nodes
// are numbered from 1; each keeps its ports and its data directory over restarts. None survives the
// test; when it fails, the ends of all logs are printed.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { Network } from './network.ts';
import { type PatientClient, answered } from './patient.ts';
import { requestOnce, type RawResponse } from './raw-client.ts';
import { freePorts } from './ports.ts';
import { type ServerOptions, TestServer } from './server.ts';
import { until } from './until.ts';

/**
 * A group without a leader elects one within half a second to a second instead of one to two. Quicker ticks cost more
 * than they save: three idle nodes with ticks of 30 ms take 0.15 of a core, with 60 ms 0.11.
 */
const QUICK_TICK_MS = 50;
/** Processes take turns on the cores, so that they need more patience. */
const PROCESS_TICK_MS = 60;
const LOG_END_CHARS = 8000;
/** The nodes of one process do not post 64 KiB to each other each second, where that is not the subject. */
const NO_PROBES = '[governance.cluster_probe]\ninterval = "0s"';
/** Another process may take a port between the probe and the start. */
const START_ATTEMPTS = 5;

export interface ClusterOptions {
  readonly nodes?: number;
  readonly groups?: number;
  readonly cores?: number;
  /** Nodes that have a configuration and ports but are not started with the others, and are not voters at first. */
  readonly spares?: number;
  readonly longPollTimeout?: string;
  /** Every node is a process of its own, or these are; without it all of them are in this one. */
  readonly process?: boolean | readonly number[];
  /** One tick of Raft in ms. */
  readonly tickMs?: number;
  /** More keys of the table [server] of a single node. */
  readonly server?: (id: number) => string;
  /** More keys of the table [cluster] of a single node. */
  readonly cluster?: (id: number) => string;
  /** More keys of the table [raft]. */
  readonly raft?: string;
  /** More tables for every node's configuration. */
  readonly toml?: string;
  /** And for a single node's. */
  readonly tomlOf?: (id: number) => string;
  /** The port by which one node reaches the cluster port of another one; that port itself when left out. */
  readonly via?: (from: number, to: number, port: number) => number;
  /** The nodes reach each other through proxies, so that the ways between them can be cut. */
  readonly network?: boolean;
  /** Only of processes: disks of single nodes, by id; the others have theirs in a temporary folder. */
  readonly disks?: ReadonlyMap<number, NodeDisk>;
  /** More options of single servers. */
  readonly serverOf?: (id: number) => Pick<ServerOptions, 'env' | 'nodeArgs' | 'wrapper'>;
}

export interface NodeDisk {
  /** Where the node sees it. */
  readonly path: string;
  /** Prefix for the node's command. */
  readonly enter: readonly string[];
}

/** A group on one node, as `/__svc/metrics` describes it. */
export interface GroupStatus {
  readonly raft_group_id: number;
  readonly leader: number | null;
  readonly current_term: number;
  readonly last_log_index: number;
  readonly committed_index: number;
  readonly last_applied: number;
  readonly voter_ids: readonly number[];
  readonly learner_ids: readonly number[];
  /** Addresses of the nodes that joined while the cluster ran. */
  readonly member_addresses?: Readonly<Record<string, string>>;
}

interface Member {
  readonly server: TestServer;
  clusterPort: number;
  paused: boolean;
}

export class TestCluster {
  readonly options: ClusterOptions;
  readonly #members = new Map<number, Member>();
  readonly #network = new Network();

  private constructor(options: ClusterOptions) {
    this.options = options;
  }

  /** Chooses ports; starts nothing. */
  static async create(options: ClusterOptions = {}): Promise<TestCluster> {
    const cluster = new TestCluster(options);
    const { process: processes = false } = options;
    const count = (options.nodes ?? 3) + (options.spares ?? 0);
    for (let id = 1; id <= count; id++) {
      const clusterPort = await cluster.#choosePort();
      const disk = options.disks?.get(id);
      const server = new TestServer({
        cores: options.cores ?? 1,
        groups: options.groups ?? 4,
        longPollTimeout: options.longPollTimeout ?? '500ms',
        process: typeof processes === 'boolean' ? processes : processes.includes(id),
        tickMs: options.tickMs ?? (processes === false ? QUICK_TICK_MS : PROCESS_TICK_MS),
        ...(disk === undefined ? {} : { dataDir: disk.path, wrapper: disk.enter }),
        ...options.serverOf?.(id),
      });
      cluster.#members.set(id, { server, clusterPort, paused: false });
    }
    if (options.network === true) await cluster.#addProxies();
    for (const id of cluster.#members.keys()) cluster.configure(id);
    return cluster;
  }

  /** Ids of the nodes that form the cluster at first. */
  get ids(): number[] {
    return [...this.#members.keys()].slice(0, this.options.nodes ?? 3);
  }

  get groupIds(): number[] {
    return Array.from({ length: this.options.groups ?? 4 }, (_, group) => group);
  }

  get runningIds(): number[] {
    return [...this.#members].filter(([, { server, paused }]) => server.isRunning && !paused).map(([id]) => id);
  }

  /** The ways between the nodes; only with the option. */
  get network(): Network {
    assert(this.options.network === true, 'a cluster with the option network');
    return this.#network;
  }

  node(id: number): TestServer {
    return this.#member(id).server;
  }

  /** Asks the node again while it says that it cannot answer now. */
  client(id: number): PatientClient {
    return this.node(id).client;
  }

  /** Where shard 0 listens for the other nodes. */
  clusterPort(id: number): number {
    return this.#member(id).clusterPort;
  }

  /** Writes the configuration file of a node; in force from its next start. */
  configure(id: number, initMembership = id <= (this.options.nodes ?? 3), peers: readonly number[] = this.ids): void {
    const listed = peers.includes(id) ? peers : [...peers, id];
    const entries = listed.map((node) => `{ node_id = ${node}, addr = "127.0.0.1:${this.#peerPort(id, node)}" }`);
    const { server, clusterPort } = this.#member(id);
    writeFileSync(
      server.configFile,
      [
        '[server]',
        `cluster_listen = "127.0.0.1:${clusterPort}"`,
        this.options.server?.(id) ?? '',
        '[cluster]',
        'secret = "8f14e45fceea167a5a36dedd4bea2543"',
        this.options.cluster?.(id) ?? '',
        '[raft]',
        `node_id = ${id}`,
        `init_membership = ${initMembership}`,
        `peers = [${entries.join(', ')}]`,
        this.options.raft ?? '',
        '[http]',
        `long_poll_timeout = "${this.options.longPollTimeout ?? '500ms'}"`,
        this.options.toml ?? '',
        this.options.tomlOf?.(id) ?? '',
        this.options.process === true || this.options.toml?.includes('[governance.cluster_probe]') === true
          ? ''
          : NO_PROBES,
        '',
      ].join('\n'),
    );
  }

  /** Starts all nodes at once; resolves when every group has a leader that every node knows. */
  async startAll(ids: readonly number[] = this.ids): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const starts = await Promise.allSettled(ids.map((id) => this.node(id).start('health')));
      const failed = starts.find((start) => start.status === 'rejected');
      if (failed === undefined) break;
      const isTaken = ids.some((id) => /EADDRINUSE/.test(this.node(id).log()));
      if (!isTaken || attempt === START_ATTEMPTS) throw failed.reason;
      await Promise.all(ids.map((id) => this.node(id).end()));
      for (const member of this.#members.values()) member.clusterPort = await this.#choosePort();
      for (const id of this.#members.keys()) this.configure(id);
    }
    await this.ready(ids);
  }

  async ready(ids: readonly number[] = this.runningIds): Promise<void> {
    await Promise.all(ids.map((id) => this.#becomes(id, 200)));
  }

  /** The status of `/__svc/ready`, with its body. */
  async readiness(id: number): Promise<RawResponse> {
    return await answered(() => requestOnce(this.node(id).adminPort, 'GET', '/__svc/ready'));
  }

  async kill(id: number): Promise<void> {
    await this.node(id).kill();
    this.#member(id).paused = false;
  }

  /**
   * The node is away: in the quickest way that there is, which hands its leaderships over where the node is no process.
   */
  async end(id: number): Promise<void> {
    await this.node(id).end();
    this.#member(id).paused = false;
  }

  async restart(id: number): Promise<void> {
    await this.node(id).start('health');
  }

  /** SIGSTOP: the node keeps its connections and says nothing. */
  pause(id: number): void {
    process.kill(this.node(id).pid, 'SIGSTOP');
    this.#member(id).paused = true;
  }

  resume(id: number): void {
    process.kill(this.node(id).pid, 'SIGCONT');
    this.#member(id).paused = false;
  }

  /** The node's disk is gone. */
  wipe(id: number): void {
    assert(!this.node(id).isRunning, 'only a node that does not run can lose its disk');
    rmSync(this.node(id).dataDir, { recursive: true, force: true });
  }

  async metrics(id: number): Promise<Record<string, unknown>> {
    return await this.node(id).metrics();
  }

  async groups(id: number): Promise<readonly GroupStatus[]> {
    return (await this.metrics(id))['raft_groups'] as readonly GroupStatus[];
  }

  async group(id: number, group: number): Promise<GroupStatus> {
    const found = (await this.groups(id)).find((one) => one.raft_group_id === group);
    assert(found !== undefined, `node ${id} has group ${group}`);
    return found;
  }

  /** The node that says of itself that it leads, in the newest term. */
  async leaderOf(group: number): Promise<number> {
    let leader = 0;
    await until(`a leader of group ${group}`, async () => {
      let term = -1;
      leader = 0;
      for (const id of this.runningIds) {
        const status = await this.group(id, group);
        if (status.leader === id && status.current_term > term) [leader, term] = [id, status.current_term];
      }
      return leader !== 0;
    });
    return leader;
  }

  /** Resolves when the leader is wanted. A transfer that was started may come to nothing on a busy machine. */
  async moveLeader(group: number, to: number, isWanted = (leader: number) => leader === to): Promise<void> {
    await until(`the leader of group ${group} moves to node ${to}`, async () => {
      const leader = await this.leaderOf(group);
      if (isWanted(leader)) return true;
      await requestOnce(this.node(leader).adminPort, 'POST', `/__svc/raft/${group}/leader/transfer/${to}`);
      return false;
    });
  }

  /**
   * Runs `body`, which is told the leader, again when the leadership has moved
   * meanwhile: what failed may be due to that.
   */
  async underOneLeader(group: number, body: (leader: number) => Promise<void>): Promise<void> {
    for (;;) {
      const [leader, term] = await this.#leadership(group);
      try {
        return await body(leader);
      } catch (error) {
        const [leaderNow, termNow] = await this.#leadership(group);
        if (leaderNow === leader && termNow === term) throw error;
      }
    }
  }

  /** The groups' terms, as their leaders say: they change with every election. */
  async terms(groups: readonly number[] = this.groupIds): Promise<number[]> {
    const terms: number[] = [];
    for (const group of groups) terms.push((await this.#leadership(group))[1]);
    return terms;
  }

  /** Every running node has applied what any of them has. Only after the last write. */
  async settled(ids: readonly number[] = this.runningIds): Promise<void> {
    let seen = '';
    const detail = (): string => `equal applied indexes on nodes ${ids.join(', ')}; now ${seen}`;
    await until(detail, async () => {
      const applied = await Promise.all(
        ids.map(async (id) => (await this.groups(id)).map((one) => one.last_applied).join(' ')),
      );
      seen = applied.join(' | ');
      return new Set(applied).size === 1;
    });
  }

  async #leadership(group: number): Promise<[leader: number, term: number]> {
    const leader = await this.leaderOf(group);
    return [leader, (await this.group(leader, group)).current_term];
  }

  logs(): string {
    return [...this.#members]
      .map(([id, { server }]) => `--- log of node ${id} (end) ---\n${server.log().slice(-LOG_END_CHARS)}\n`)
      .join('');
  }

  async dispose(): Promise<void> {
    await Promise.all([...this.#members.values()].map(({ server }) => server.dispose()));
    await this.#network.close();
  }

  async #addProxies(): Promise<void> {
    const ids = [...this.#members.keys()];
    for (const [from, to] of ids.flatMap((a) => ids.filter((b) => b !== a).map((b) => [a, b] as const))) {
      const port = await this.#choosePort();
      await this.#network.add(from, to, port, this.options.cores ?? 1, () => this.#member(to).clusterPort);
    }
  }

  /** Where node `from` finds node `to`. */
  #peerPort(from: number, to: number): number {
    if (this.options.network === true && from !== to) return this.#network.port(from, to);
    const { via = (_from, _to, port) => port } = this.options;
    return via(from, to, this.clusterPort(to));
  }

  /** Shard i of a node listens on its port plus i. */
  async #choosePort(): Promise<number> {
    return await freePorts(this.options.cores ?? 1);
  }

  #member(id: number): Member {
    const member = this.#members.get(id);
    assert(member !== undefined, `node ${id} exists`);
    return member;
  }

  async #becomes(id: number, status: number): Promise<void> {
    let last = '';
    await until(
      () => `node ${id} ready; last answer ${last}`,
      async () => {
        assert(this.node(id).isRunning, `node ${id} ended while it was awaited`);
        const answer = await this.readiness(id);
        last = `${answer.status} ${answer.body.toString('utf8')}`;
        return answer.status === status;
      },
    );
  }
}

/** Runs `body` against a started cluster; prints the nodes' logs when it fails. */
export async function withCluster(
  options: ClusterOptions,
  body: (cluster: TestCluster) => Promise<void>,
): Promise<void> {
  const cluster = await TestCluster.create(options);
  try {
    await cluster.startAll();
    await body(cluster);
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    await cluster.dispose();
  }
}
