/**
 * Makes the npm package of the client library in dist/client-package, from src/client alone: its modules, their declarations, and what its
 * users read. The compiler knows only what browsers have, so nothing of Node gets in.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCE = join(ROOT, 'src/client');
const RESULT = join(ROOT, 'dist/client-package');
const TYPES = join(RESULT, 'types');
/** Everything else is inside. */
const OUTSIDE = 'msgpackr';
/** Modules for what programs use already; each is imported by its name behind that of the package. */
const DROP_INS = ['assistant-stream', 'resumable-stream', 'web-streams', 'workflow-streams', 'workflow-world'];

const { version, author, license, dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

const MANIFEST = {
  name: 'millrace-client',
  version,
  description:
    'Client of Millrace: many append-only streams on one connection, exactly-once appends, followers without a gap.',
  keywords: ['streams', 'append-only', 'log', 'websocket', 'durable-streams', 'exactly-once'],
  author,
  license,
  type: 'module',
  sideEffects: false,
  engines: { node: '>=20' },
  exports: {
    '.': { types: './types/client.d.ts', default: './index.js' },
    ...Object.fromEntries(
      DROP_INS.map((name) => [`./${name}`, { types: `./types/${name}.d.ts`, default: `./${name}.js` }]),
    ),
    './package.json': './package.json',
  },
  files: ['*.js', 'types'],
  publishConfig: { access: 'public', provenance: true },
  dependencies: { [OUTSIDE]: `^${dependencies[OUTSIDE]}` },
};

function declare() {
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [tsc, '-p', SOURCE, '--outDir', TYPES], { stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`the declarations of the client failed (${status})`);
  for (const name of readdirSync(TYPES)) {
    const file = join(TYPES, name);
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(/(from '\.\/[\w-]+)\.ts'/g, "$1.js'"));
  }
}

/** Drop-ins import the client from the module that programs import too, so there is one StreamError. */
const CLIENT_ONCE = {
  name: 'client-once',
  resolveId: (id, importer) =>
    id === './client.ts' && importer !== undefined ? { id: './index.js', external: true } : undefined,
};

async function bundle(source, file) {
  const build = await rolldown({
    input: join(SOURCE, source),
    platform: 'neutral',
    external: [OUTSIDE],
    plugins: [CLIENT_ONCE],
    tsconfig: join(SOURCE, 'tsconfig.json'),
    onLog(level, log, handle) {
      if (level === 'warn') throw new Error(log.message);
      handle(level, log);
    },
  });
  await build.write({ file: join(RESULT, file), format: 'esm' });
}

/** The page up to what maintainers read; its links lead to pages that are not in the package. */
function page() {
  const [text] = readFileSync(join(SOURCE, 'README.md'), 'utf8').split('\n## For maintainers');
  return text
    .replace(/`npm run client-package`.*\n\n/, '')
    .replaceAll(/<!--.*?-->\n/g, '')
    .replaceAll(/\[([^\]]+)\]\(\.\.[^)]*\)/g, '$1');
}

rmSync(RESULT, { recursive: true, force: true });
mkdirSync(TYPES, { recursive: true });
await bundle('client.ts', 'index.js');
for (const name of DROP_INS) await bundle(`${name}.ts`, `${name}.js`);
declare();
writeFileSync(join(RESULT, 'package.json'), `${JSON.stringify(MANIFEST, undefined, 2)}\n`);
writeFileSync(join(RESULT, 'README.md'), `${page().trimEnd()}\n`);
copyFileSync(join(ROOT, 'LICENSE'), join(RESULT, 'LICENSE'));
