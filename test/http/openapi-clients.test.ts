// The OpenAPI document in other people's tools: Redocly's recommended rules, and a TypeScript client that is generated,
// compiled strictly, and run against a node.
import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { API_DOCUMENTS } from '../../src/http/api-document.ts';
import { removeFolder, run, temporaryFolder, withServer, within } from '../support/server.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { PATIENCE_MS } from '../support/until.ts';

/** These redirect, refuse or switch protocols, always. */
const WITHOUT_2XX =
  /^operation-2xx-response #\/paths\/~1(\{bucket\}~1\{stream\}~1snapshot(~1\{offset\}\/delete|\/(get|head))|__svc~1session\/get)\//;

for (const plane of ['client', 'admin'] as const)
  test(`the document of the ${plane} plane passes Redocly's recommended rules`, async () => {
    const source = readFileSync(API_DOCUMENTS[plane], 'utf8');
    const config = await createConfig({ extends: ['recommended'] });
    const lint = async (text: string): Promise<string[]> => {
      const problems = await lintFromString({ source: text, absoluteRef: 'openapi.json', config });
      return problems.map(({ ruleId, location }) => `${ruleId} ${location[0]?.pointer ?? ''}`);
    };
    const found = (await lint(source)).filter((problem) => !WITHOUT_2XX.test(problem));
    assert.deepEqual(found, []);
    const { servers: _, ...without } = JSON.parse(source) as Record<string, unknown>;
    assert.match((await lint(JSON.stringify(without))).join('\n'), /^no-empty-servers /m, 'the rules are at work');
  });

/** openapi-typescript calls the compiler's API, which the compiler of this repository does not have. */
const moduleOf = (text: string): string => `data:text/javascript,${encodeURIComponent(text)}`;
const HOOK = moduleOf(
  "export const resolve = (name, context, next) => next(name === 'typescript' ? 'typescript-5' : name, context)",
);
const WITH_TYPESCRIPT_5 = moduleOf(`import { register } from 'node:module'; register(${JSON.stringify(HOOK)})`);

const PROGRAM = `
import createClient from 'openapi-fetch';
import type { paths } from './schema.ts';

const client = createClient<paths, 'application/json'>({ baseUrl: process.argv[2] ?? '' });
const path = { bucket: 'shop', stream: 'orders' };
const json = { params: { path, header: { 'Content-Type': 'application/json' } } };
const made = await client.PUT('/{bucket}/{stream}', { ...json, body: [{ total: 9.5 }] });
await client.POST('/{bucket}/{stream}', { ...json, body: { total: 2 } });
const read = await client.GET('/{bucket}/{stream}', { params: { path, query: { offset: '-1' } } });
const records: readonly unknown[] | undefined = read.data;
const last = await client.GET('/{bucket}/{stream}', { params: { path, query: { tail_records: 1, record_view: 'envelope' } } });
const [envelope] = last.data ?? [];
const ordinal: number | undefined =
  typeof envelope === 'object' && envelope !== null && 'record' in envelope && typeof envelope.record === 'number' ? envelope.record : undefined;
const listed = await client.GET('/{bucket}/streams', { params: { path: { bucket: 'shop' } } });
const names: string[] | undefined = listed.data?.streams.map((one) => one.stream_id);
const missing = await client.GET('/{bucket}/{stream}', { params: { path: { bucket: 'shop', stream: 'none' } } });
// @ts-expect-error there is no such parameter
await client.GET('/{bucket}/{stream}', { params: { path, query: { ofset: '-1' } } });
console.log(JSON.stringify({ made: made.response.status, records, ordinal, names, missing: missing.response.status }));
`;

test('a generated TypeScript client compiles, and does what it says', async () => {
  const folder = temporaryFolder('openapi-client');
  try {
    symlinkSync(join(REPO_ROOT, 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    writeFileSync(join(folder, 'program.ts'), PROGRAM);
    const compilerOptions = {
      ...{ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, outDir: 'out' },
      ...{
        module: 'nodenext',
        target: 'es2023',
        types: ['node'],
        rewriteRelativeImportExtensions: true,
        skipLibCheck: true,
      },
    };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
    const node = async (...args: readonly string[]): Promise<string> => {
      const started = run([process.execPath, ...args], {}, folder);
      assert.equal(await within(started.exited, PATIENCE_MS, args.join(' ')), 0, started.output());
      return started.output();
    };
    const generator = join(REPO_ROOT, 'node_modules/openapi-typescript/bin/cli.js');
    const document = new URL(API_DOCUMENTS.client).pathname;
    await node('--import', WITH_TYPESCRIPT_5, generator, document, '--output', 'schema.ts');
    await node(join(REPO_ROOT, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.json');
    await withServer({ cores: 1, groups: 4 }, async (server) => {
      const told = JSON.parse(await node('out/program.js', server.url)) as object;
      assert.deepEqual(told, {
        ...{ made: 201, records: [{ total: 9.5 }, { total: 2 }], ordinal: 1, names: ['orders'], missing: 404 },
      });
    });
  } finally {
    removeFolder(folder);
  }
});
