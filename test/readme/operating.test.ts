// Every command of src/operator/README.md, executed in its order against three real nodes. What the text says happens
// between the commands (hosts that are lost, disks that are gone) the test does. Changed are only things of the
// machine: 4 groups instead of 16, /etc is a folder of the test, the addresses of the hosts are ports on loopback, and `sudo`, `systemctl` and
// `ssh` are scripts that ask this process, which is the service manager of all hosts.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { loadConfig } from '../../src/config/load.ts';
import { readClusterFile } from '../../src/nodes/cluster-file.ts';
import { audit } from '../../src/operator/verbs/audit.ts';
import { TestCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { scratchFile } from '../support/ctl.ts';
import { blocksOf, readDocument, sectionOf } from '../support/documents.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { parseSteps, shellBlocks } from './shell-block.ts';

const README = readDocument('src/operator/README.md');
const STEP_TIMEOUT_MS = 180_000;
const GROUPS = 4;
/** In commands and in what they print. */
const fewerGroups = (text: string): string =>
  text.replaceAll(/(?<=--expected-groups )16\b|\b16(?= groups\b)/g, String(GROUPS));
const hostOf = (id: number): string => `10.0.0.${id}`;

class Machine {
  readonly cluster: TestCluster;
  readonly folder = temporaryFolder('operating');
  readonly #env: Record<string, string> = {};
  readonly #server: Server;

  constructor(cluster: TestCluster) {
    this.cluster = cluster;
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        this.#serve(request.url ?? '', Buffer.concat(chunks).toString('utf8')).then(
          (text) => response.end(text),
          (error: unknown) => response.writeHead(500).end(`${String(error)}\n`),
        );
      });
    });
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    const ask = `exec curl -fsS --data-binary "$*" http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    const scripts = {
      // No user is created on this machine, and files keep the owner that runs the test.
      sudo: 'case "$1" in useradd) exit 0 ;; esac; exec $(printf "%s " "$@" | sed "s/ -g millrace / /")',
      systemctl: `${ask}/local`,
      ssh: `host=$1; shift; ${ask}/host/$host`,
    };
    const bin = join(this.folder, 'bin');
    for (const path of [
      bin,
      join(this.folder, 'prefix'),
      join(this.folder, 'etc/systemd/system'),
      join(this.folder, 'var/backups'),
    ])
      mkdirSync(path, { recursive: true });
    for (const [name, text] of Object.entries(scripts)) {
      writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`);
      chmodSync(join(bin, name), 0o755);
    }
    this.#env['npm_config_offline'] = 'true';
    this.#env['npm_config_prefix'] = join(this.folder, 'prefix');
    this.#env['PATH'] = [bin, join(this.folder, 'prefix/bin'), process.env['PATH'] ?? ''].join(delimiter);
  }

  /** Runs the commands of a section; a comment behind a command is what it prints. */
  async follow(heading: string): Promise<void> {
    const steps = parseSteps(shellBlocks(README, heading));
    assert(steps.length > 0, heading);
    for (const { command, output } of steps) {
      const assignment = /^export (\w+)=(\S+)$/.exec(command);
      if (assignment !== null) this.#env[assignment[1] as string] = this.#localize(assignment[2] as string);
      else await this.#execute(command, output);
    }
  }

  async #execute(command: string, expected: string | undefined): Promise<void> {
    const attempt = run(['sh', '-c', `{ ${this.#localize(command)}\n} 2>"$ERRORS"`], {
      ...this.#env,
      ERRORS: join(this.folder, 'stderr'),
    });
    const code = await within(attempt.exited, STEP_TIMEOUT_MS, command);
    const said = `${command}\n${attempt.output()}\n${readFileSync(join(this.folder, 'stderr'), 'utf8')}`;
    assert.equal(code, 0, said);
    if (expected !== undefined) assert.equal(attempt.output().trim(), fewerGroups(expected), said);
  }

  #localize(command: string): string {
    return fewerGroups(command)
      .replaceAll(/http:\/\/10\.0\.0\.(\d):4438/g, (_, id: string) => this.cluster.node(Number(id)).adminUrl)
      .replaceAll(/(?<![\w/])\/(etc|var)\//g, `${this.folder}/$1/`);
  }

  /** Where the cluster file is for the operator, once the ports are known. */
  writeClusterFile(): void {
    const nodes = this.cluster.ids.map((id) => ({ id, host: hostOf(id), admin_url: this.cluster.node(id).adminUrl }));
    const text = nodes.map(
      (node) => `[[nodes]]\nid = ${node.id}\nhost = "${node.host}"\nadmin_url = "${node.admin_url}"\n`,
    );
    writeFileSync(join(this.folder, 'etc/millrace/cluster.toml'), text.join(''));
  }

  async #serve(url: string, command: string): Promise<string> {
    if (url === '/local') {
      if (command === 'daemon-reload') {
        assert(existsSync(join(this.folder, 'etc/systemd/system/millrace.service')), 'the unit was copied');
        return '';
      }
      assert.equal(command, 'enable --now millrace');
      await this.cluster.startAll();
      this.writeClusterFile();
      return '';
    }
    const id = Number(/^\/host\/10\.0\.0\.(\d)$/.exec(url)?.[1]);
    const verb = /^sudo systemctl (start|restart) millrace$/.exec(command)?.[1];
    assert(this.cluster.ids.includes(id) && verb !== undefined, `${url}: ${command}`);
    if (verb === 'restart') await this.cluster.node(id).stop();
    await this.cluster.restart(id);
    return '';
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await this.cluster.dispose();
    removeFolder(this.folder);
  }
}

test('every command of src/operator/README.md works as written', async () => {
  const cluster = await TestCluster.create({ groups: GROUPS });
  const machine = new Machine(cluster);
  try {
    await machine.start();
    await machine.follow('## As a service');
    assert.match(readFileSync(join(machine.folder, 'etc/millrace/secret'), 'utf8'), /^[0-9a-f]{64}\n$/);
    await machine.follow('## First cluster');
    for (const id of cluster.ids) cluster.configure(id, false);
    await machine.follow('## Rolling upgrade');

    await cluster.end(3);
    cluster.wipe(3);
    await machine.follow('## Lost node');

    await cluster.end(2);
    await cluster.end(3);
    await until('the survivor notices', async () => (await cluster.groups(1)).every(({ leader }) => leader === null));
    await machine.follow('## Lost quorum');
    await cluster.restart(3);
    await cluster.ready();

    await machine.follow('## Reading the metrics');
    const metrics = await cluster.metrics(1);
    const names = sectionOf(README, '## Reading the metrics')
      .filter((line) => line.startsWith('| `'))
      .flatMap((line) => [...(line.split('|')[1] as string).matchAll(/`(\w+)`/g)].map((match) => match[1] as string));
    assert(names.length > 10);
    for (const name of names) assert(name in metrics, `the metrics have ${name}`);
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    await machine.close();
  }
});

test('the files of src/operator/README.md are as the programs want them', async () => {
  const [cluster] = tomlBlocks("## The operator's tool");
  assert.deepEqual(
    (await readClusterFile(scratchFile('cluster.toml', cluster as string), process)).nodes.map(
      ({ id, adminUrl }) => `${id} ${adminUrl}`,
    ),
    [1, 2, 3].map((id) => `${id} http://${hostOf(id)}:4438`),
  );
  const [node] = tomlBlocks('## A cluster');
  const secret = scratchFile('secret', '8f14e45fceea167a5a36dedd4bea2543\n');
  const file = scratchFile(
    'millrace.toml',
    (node as string).replaceAll(/\/etc\/millrace\/(secret|client-token)/g, secret),
  );
  const unit = readFileSync(join(REPO_ROOT, 'scripts/millrace.service'), 'utf8');
  const start = /^ExecStart=\S+node dist\/main\.js (.*)$/m.exec(unit)?.[1];
  assert(start !== undefined, unit);
  const config = loadConfig(start.replace('/etc/millrace/millrace.toml', file).split(' '));
  assert.equal(config.raft.peers.length, 3);
  checkUnit(unit);
  assert.match(unit, new RegExp(`^StateDirectory=${config.storage.dataDir.replace('/var/lib/', '')}$`, 'm'));
  const logs = /^LogsDirectory=(.*)$/m.exec(unit)?.[1];
  for (const example of audit.examples)
    assert(example.includes(` /var/log/${logs}/`), `${example}: the service writes there`);
});

/** By systemd's own rules, where it is installed. */
function checkUnit(unit: string): void {
  for (const line of [
    'UMask=0077',
    'StateDirectoryMode=0700',
    'NoNewPrivileges=true',
    'CapabilityBoundingSet=',
    'StartLimitIntervalSec=0',
  ]) {
    assert(unit.split('\n').includes(line), line);
  }
  assert.doesNotMatch(unit, /^MemoryDenyWriteExecute/m, 'V8 compiles at run time');
  const file = scratchFile('millrace.service', unit.replace('/usr/bin/node', process.execPath));
  const found = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' });
  if ((found.error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') return;
  assert.deepEqual([found.status, found.stderr], [0, '']);
}

function tomlBlocks(heading: string): string[] {
  const blocks = blocksOf(README).filter((block) => block.heading === heading && block.language === 'toml');
  return blocks.map(({ lines }) => `${lines.join('\n')}\n`);
}
