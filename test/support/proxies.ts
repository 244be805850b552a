// Real reverse proxies on loopback in front of a server: nginx, HAProxy and Caddy, without root, each with its own
// configuration. They die with the test process.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from './ports.ts';
import { type Run, removeFolder, run, temporaryFolder } from './server.ts';
import { PATIENCE_MS } from './until.ts';

const POLL_MS = 20;

export type Proxy = 'nginx' | 'haproxy' | 'caddy';

/** Why the program cannot be used here; undefined when it can. */
export function proxyMissing(program: Proxy): string | undefined {
  const found = spawnSync('sh', ['-c', `PATH="$PATH:/usr/sbin" command -v ${program}`]).status === 0;
  return found ? undefined : `${program} is not installed: apt-get install -y --no-install-recommends ${program}`;
}

export interface NginxOptions {
  readonly upstreamPort: number;
  /** Directives of `location /`, before proxy_pass. */
  readonly location?: string;
  /** Directives of `http`. */
  readonly http?: string;
  /** Paths below this one are refused with 403. */
  readonly denied?: string;
}

/** One worker, connections to the server kept. The result is the port. */
export async function startNginx(t: TestContext, options: NginxOptions): Promise<number> {
  const port = await freePort();
  const configuration = `
events { worker_connections 4096; }
http {
  access_log off;
  ${options.http ?? ''}
  upstream node { server 127.0.0.1:${options.upstreamPort}; keepalive 4; keepalive_timeout 5s; }
  server {
    listen 127.0.0.1:${port};
    client_max_body_size 64m;
    ${options.denied === undefined ? '' : `location ${options.denied} { return 403; }`}
    location / { ${options.location ?? ''} proxy_pass http://node; }
  }
}
`;
  await startNginxWith(t, configuration, port);
  return port;
}

/** A whole configuration that listens on `port`; only where nginx keeps its own files is added. */
export async function startNginxWith(t: TestContext, configuration: string, port: number): Promise<void> {
  const folder = temporaryFolder('nginx');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${join(folder, kind)};`,
  );
  const own = `daemon off; master_process off; pid ${join(folder, 'pid')}; error_log stderr;\n`;
  const path = join(folder, 'nginx.conf');
  writeFileSync(path, own + configuration.replace('http {', `http {\n  ${temporary.join(' ')}`));
  await start(t, ['/usr/sbin/nginx', '-e', 'stderr', '-p', folder, '-c', path], port, folder);
}

export async function startHaproxyWith(t: TestContext, configuration: string, port: number): Promise<void> {
  const folder = temporaryFolder('haproxy');
  const path = join(folder, 'haproxy.cfg');
  writeFileSync(path, configuration);
  await start(t, ['/usr/sbin/haproxy', '-db', '-f', path], port, folder);
}

export async function startCaddyWith(t: TestContext, configuration: string, port: number): Promise<void> {
  const folder = temporaryFolder('caddy');
  const path = join(folder, 'Caddyfile');
  writeFileSync(path, configuration);
  // It keeps its files where these variables say.
  const own = ['HOME', 'XDG_DATA_HOME', 'XDG_CONFIG_HOME'].map((name) => `${name}=${folder}`);
  await start(t, ['/usr/bin/env', ...own, 'caddy', 'run', '--adapter', 'caddyfile', '--config', path], port, folder);
}

export interface HaproxyOptions {
  readonly upstreamPort: number;
  readonly denied?: string;
  /** Appends the client's address to X-Forwarded-For. */
  readonly forwardsAddress?: true;
}

/** Connections to the server are shared among all clients. The result is the port. */
export async function startHaproxy(
  t: TestContext,
  { upstreamPort, denied, forwardsAddress }: HaproxyOptions,
): Promise<number> {
  const port = await freePort();
  await startHaproxyWith(
    t,
    `global
  maxconn 200
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend clients
  bind 127.0.0.1:${port}
  http-request set-uri %[pathq]
  ${forwardsAddress === undefined ? '' : 'option forwardfor'}
  ${denied === undefined ? '' : `http-request deny if { path_beg ${denied} }`}
  default_backend nodes
backend nodes
  server node 127.0.0.1:${upstreamPort} pool-max-conn 2
`,
    port,
  );
  return port;
}

async function start(t: TestContext, command: readonly string[], port: number, folder: string): Promise<void> {
  const proxy: Run = run(command);
  t.after(async () => {
    proxy.child.kill('SIGKILL');
    await proxy.exited;
    removeFolder(folder);
  });
  const deadlineMs = performance.now() + PATIENCE_MS;
  while (!(await listens(port))) {
    assert(proxy.child.exitCode === null, `${command[0]} ended:\n${proxy.output()}`);
    assert(performance.now() < deadlineMs, `${command[0]} does not listen after ${PATIENCE_MS} ms:\n${proxy.output()}`);
    await delay(POLL_MS);
  }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
