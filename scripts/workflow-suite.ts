/**
 * `npm run workflow-suite`: the World suite of Vercel's Workflow DevKit, `@workflow/world-testing`, over the World that is on Millrace
 * alone. It comes from npm, with 500 packages, into a temporary folder; the suite itself needs loopback only, and takes a minute or
 * two. The types are compared with the interface, those of the streams with both lines of `@workflow/world`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { TestServer } from '../test/support/server.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CLIENT = join(ROOT, 'dist/client-package');
/** The suite names the versions of the DevKit that it is for. */
const PACKAGES = ['@workflow/world-testing@5.0.0-beta.35', 'world-4@npm:@workflow/world@4.5.0', 'vitest@4.1.12'];

const WORLD = `
import { connect } from 'millrace-client';
import { createWorld as createMillraceWorld } from 'millrace-client/workflow-world';
export function createWorld() {
  const baseUrl = () => 'http://localhost:' + process.env.PORT;
  return createMillraceWorld({ client: connect(process.env.MILLRACE_URL), baseUrl });
}
`;

/** Node 20 has no Promise.withResolvers, with which the suite waits for hooks. */
const SUITE = `
Promise.withResolvers ??= () => {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};
const { createTestSuite } = await import('@workflow/world-testing');
createTestSuite('./world.mjs');
`;

const TYPES = `
import type { Streamer, World } from '@workflow/world';
import type { Streamer as Streamer4 } from 'world-4';
import type { WorkflowStreamer } from 'millrace-client/workflow-streams';
import type { WorkflowWorld } from 'millrace-client/workflow-world';
declare const world: WorkflowWorld;
// IDs of messages have a brand of zod there, which no other package can give.
export const whole: Omit<World, 'queue' | 'createQueueHandler'> = world;
export const queue: (...given: Parameters<World['queue']>) => Promise<{ messageId: string | null }> = world.queue;
export const handler: (prefix: string, handle: () => Promise<void>) => ReturnType<World['createQueueHandler']> =
  world.createQueueHandler;
declare const streamer: WorkflowStreamer;
export const both: readonly [Streamer, Streamer4] = [streamer, streamer];
`;

/** Throws when it fails; what it prints is seen. */
async function run(command: string, args: readonly string[], cwd: string, env = process.env): Promise<void> {
  const child = spawn(command, args, { cwd, env, stdio: 'inherit' });
  const [status]: unknown[] = await once(child, 'exit');
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: status ${String(status)}`);
}

async function main(folder: string): Promise<void> {
  const server = new TestServer({ cores: 1, groups: 4 });
  writeFileSync(join(folder, 'package.json'), '{"type":"module","private":true}');
  writeFileSync(join(folder, 'world.mjs'), WORLD);
  writeFileSync(join(folder, 'world.test.mjs'), SUITE);
  writeFileSync(join(folder, 'types.mts'), TYPES);
  await run(process.execPath, ['scripts/client-package.mjs'], ROOT);
  await run('npm', ['install', '--no-audit', '--no-fund', '--install-links', ...PACKAGES, CLIENT], folder);
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const flags = ['--strict', '--noEmit', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2022', '--types', ''];
  await run(process.execPath, [tsc, ...flags, 'types.mts'], folder);
  await server.start();
  try {
    const options = process.versions.node.startsWith('20.') ? '--experimental-websocket --no-warnings' : '';
    const env = { ...process.env, MILLRACE_URL: server.url, NODE_OPTIONS: options };
    await run('npx', ['vitest', 'run', 'world.test.mjs'], folder, env);
  } finally {
    await server.dispose();
  }
}

const folder = mkdtempSync(join(tmpdir(), 'millrace-workflow-'));
try {
  await main(folder);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
