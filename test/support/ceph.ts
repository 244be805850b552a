// A real S3 server on loopback: Ceph's object gateway over one monitor and one OSD that keeps everything in memory.
// Needs no root. Its processes always die with the test process; the gateway can be killed, frozen and restarted while
// the data stays.
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts } from './ports.ts';
import { removeFolder, temporaryFolder, within } from './server.ts';
import { PATIENCE_MS } from './until.ts';

const PROGRAMS = ['ceph-mon', 'ceph-osd', 'radosgw', 'radosgw-admin', 'monmaptool', 'setpriv'];
const FSID = '5f0c1f6e-0000-4000-8000-00000000c0de';
const OSD_UUID = '5f0c1f6e-0000-4000-8000-0000000005d0';
/** Behind the gateway's: monitor, OSD and gateway take these. */
const PORTS = 10;
const POLL_MS = 50;
const GIB = 1024 ** 3;

/** Why there can be no S3 server here, and what to do about it; undefined when there can. */
export function cephMissing(): string | undefined {
  const missing = PROGRAMS.filter((name) => spawnSync('which', [name]).status !== 0);
  if (missing.length === 0) return undefined;
  return `${missing.join(', ')} not installed: apt-get install -y --no-install-recommends ceph-mon ceph-osd radosgw`;
}

export interface CephOptions {
  /** Made at the start. */
  readonly bucket?: string;
  /** `bluestore` keeps the data in a sparse file instead of memory. */
  readonly store?: 'memstore' | 'bluestore';
  readonly gib?: number;
}

export class Ceph {
  readonly accessKey = 'cephkey';
  readonly secretKey = 'cephsecret';
  readonly #folder = temporaryFolder('ceph');
  readonly #options: CephOptions;
  #port = 0;
  readonly #children: ChildProcess[] = [];
  #gateway: ChildProcess | undefined;

  private constructor(options: CephOptions) {
    this.#options = options;
  }

  static async start(options: CephOptions = {}): Promise<Ceph> {
    const ceph = new Ceph(options);
    try {
      await ceph.#start();
      if (options.bucket !== undefined) await ceph.createBucket(options.bucket);
    } catch (error) {
      process.stderr.write(`--- ceph (end of its logs) ---\n${ceph.log()}\n`);
      await ceph.stop();
      throw error;
    }
    return ceph;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** The table of nodes that keep cold objects here; more members may follow. */
  coldToml(bucket: string, root?: string): string {
    return `[storage.cold]
backend = "s3"
${root === undefined ? '' : `root = "${root}"`}
s3.bucket = "${bucket}"
s3.endpoint = "${this.endpoint}"
s3.access_key_id = "${this.accessKey}"
s3.secret_access_key = "${this.secretKey}"
s3.server_side_encryption = "none"
`;
  }

  /** An ordinary client of the server, for the test's own looks into it. */
  client(): S3Client {
    return new S3Client({
      endpoint: this.endpoint,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: { accessKeyId: this.accessKey, secretAccessKey: this.secretKey },
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    });
  }

  async createBucket(name: string): Promise<void> {
    const client = this.client();
    await client.send(new CreateBucketCommand({ Bucket: name }));
    client.destroy();
  }

  /** No answer to anything, connections stay: a hung server. */
  freezeGateway(): void {
    this.#gateway?.kill('SIGSTOP');
  }

  thawGateway(): void {
    this.#gateway?.kill('SIGCONT');
  }

  /** Connections are refused from now on. */
  async killGateway(): Promise<void> {
    const gateway = this.#gateway;
    this.#gateway = undefined;
    if (gateway === undefined) return;
    await end(gateway);
  }

  async startGateway(): Promise<void> {
    this.#gateway = this.#spawn('radosgw', ['-f', '-n', 'client.rgw']);
    await within(this.#answers(), PATIENCE_MS, 'the gateway answers');
  }

  async stop(): Promise<void> {
    await this.killGateway();
    // The monitor last: the others wait for it.
    for (const child of this.#children.reverse()) await end(child);
    removeFolder(this.#folder);
  }

  log(): string {
    const tail = (name: string): string => {
      try {
        return `${name}:\n${readFileSync(join(this.#folder, name), 'utf8').slice(-2000)}`;
      } catch {
        return '';
      }
    };
    return ['out.log', 'log/client.rgw.log'].map(tail).join('\n');
  }

  async #start(): Promise<void> {
    this.#port = await freePorts(PORTS);
    for (const name of ['log', 'osd.0', 'rgw']) mkdirSync(join(this.#folder, name));
    writeFileSync(join(this.#folder, 'ceph.conf'), this.#configuration());
    const monmap = join(this.#folder, 'monmap');
    const address = `[v2:127.0.0.1:${this.#port + 1}]`;
    await this.#run('monmaptool', ['--create', '--clobber', '--fsid', FSID, '--addv', 'a', address, monmap], false);
    await this.#run('ceph-mon', ['--mkfs', '-i', 'a', '--monmap', monmap]);
    this.#children.push(this.#spawn('ceph-mon', ['-f', '-i', 'a']));
    await this.#run('ceph', ['osd', 'new', OSD_UUID]);
    await this.#run('ceph-osd', ['-i', '0', '--mkfs', '--osd-uuid', OSD_UUID]);
    this.#children.push(this.#spawn('ceph-osd', ['-f', '-i', '0']));
    const user = ['--uid=tier', '--display-name=tier', '--max-buckets=0'];
    const keys = [`--access-key=${this.accessKey}`, `--secret-key=${this.secretKey}`];
    const created = this.#run('radosgw-admin', ['-n', 'client.rgw', 'user', 'create', ...user, ...keys]);
    await Promise.all([this.startGateway(), created]);
  }

  async #answers(): Promise<void> {
    while (!(await isListening(this.#port))) {
      assert.equal(this.#gateway?.exitCode, null, 'the gateway runs');
      await delay(POLL_MS);
    }
  }

  async #run(program: string, args: readonly string[], configured = true): Promise<void> {
    const child = this.#spawn(program, args, configured);
    const code = await within(exitOf(child), PATIENCE_MS, program);
    assert.equal(code, 0, `${program} ${args.join(' ')}`);
  }

  #spawn(program: string, args: readonly string[], configured = true): ChildProcess {
    const config = configured ? ['-c', join(this.#folder, 'ceph.conf')] : [];
    const out = join(this.#folder, 'out.log');
    // The kernel ends the child when this process dies, however it dies.
    const command = ['--pdeathsig', 'KILL', 'sh', '-c', 'exec "$@" >>"$0" 2>&1', out, program, ...args, ...config];
    return spawn('setpriv', command, { stdio: 'ignore' });
  }

  #configuration(): string {
    const { store = 'memstore', gib = 4 } = this.#options;
    const folder = this.#folder;
    return `
[global]
fsid = ${FSID}
mon_host = [v2:127.0.0.1:${this.#port + 1}]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
ms_bind_msgr1 = false
ms_bind_port_min = ${this.#port + 2}
ms_bind_port_max = ${this.#port + PORTS - 1}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
keyring = /dev/null
run_dir = ${folder}
admin_socket =
pid_file =
log_file = ${folder}/log/$name.log
mon_cluster_log_file = ${folder}/log/cluster.log
crash_dir = ${folder}/crash
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_allow_pool_delete = true
mon_data_avail_crit = 2
mon_data_avail_warn = 3
mon_max_pg_per_osd = 1000
paxos_propose_interval = 0.02
paxos_min_wait = 0.01
mon_client_hunt_interval = 0.3
objecter_tick_interval = 0.3
[mon.a]
mon_data = ${folder}/mon.a
[osd.0]
osd_data = ${folder}/osd.0
osd_objectstore = ${store}
osd_memory_target = 939524096
bluestore_block_size = ${gib * GIB}
bluestore_cache_autotune = false
bluestore_cache_size = 67108864
memstore_device_bytes = ${gib * GIB}
osd_op_num_shards = 2
osd_client_watch_timeout = 3
[client.rgw]
# By default radosgw asks for encrypted links to the monitor, which need cephx.
ms_mon_client_mode = crc
rgw_data = ${folder}/rgw
rgw_frontends = beast endpoint=127.0.0.1:${this.#port} tcp_nodelay=1
rgw_thread_pool_size = 64
rgw_rados_pool_pg_num_min = 1
rgw_enable_usage_log = false
rgw_dynamic_resharding = false
rgw_override_bucket_index_max_shards = 1
`;
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

function exitOf(child: ChildProcess): Promise<number> {
  if (child.exitCode !== null) return Promise.resolve(child.exitCode);
  if (child.signalCode !== null) return Promise.resolve(-1);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? -1));
  });
}

async function end(child: ChildProcess): Promise<void> {
  // A frozen process handles no other signal.
  child.kill('SIGKILL');
  await exitOf(child);
}
