/**
 * Part of the build: what a start loads, as few files with source maps in dist/bundle. dist/main.js and dist/ctl.js load them, and packages
 * hold them in place of hundreds of modules. Tests and the simulator import the modules that tsc wrote.
 */
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { isolatedDeclarationSync } from 'rolldown/experimental';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const RESULT = join(ROOT, 'dist/bundle');
/** Programs import this from the package. Its exported types stand in the file itself, so its declarations do too. */
const NODE = 'src/server/node.ts';
/**
 * One bundle for each thread: an isolate compiles what it loads, so a chunk that threads share would be larger than what any of them needs.
 */
const ENTRIES = {
  main: 'src/server/main.ts',
  node: NODE,
  ctl: 'src/operator/main.ts',
  ...Object.fromEntries(
    ['checkpoint', 'export', 'json', 'pool', 'salvage', 'shard', 'sync', 'verify'].map((name) => [
      name,
      `workers/${name}.ts`,
    ]),
  ),
};
/**
 * Small, plain JavaScript, loaded by every start. `age-encryption`, loaded when needed, is a module without a form in CommonJS: a
 * bundle with a code cache cannot import one from outside ("A dynamic import callback was not specified"). All other packages are native, find
 * files of their own, or are loaded when needed.
 */
const INSIDE = [
  'age-encryption',
  'cli-progress',
  'fast-jwt',
  'lru-cache',
  'pino',
  'prom-client',
  'smol-toml',
  'yaml',
  'yargs',
];
/** Files that modules read from their own folder. */
const FILES = ['src/console/page.html', 'src/http/openapi-admin.json', 'src/http/openapi-client.json'];

const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const outside = Object.keys(dependencies).filter((name) => !INSIDE.includes(name));

/**
 * Every process and the threads of every shard begin with these. Node 20 loads them as CommonJS in three fifths of the
 * time that a module takes, or less: it makes no second form of its own modules, and does not look for exports in the
 * packages of others.
 */
const COMMON = ['main', 'ctl', 'shard', 'checkpoint', 'sync'];
/** Those that are large: load.cjs loads them with what V8 has compiled of them. */
const CACHED = ['main', 'ctl', 'shard'];
const MODULE_URL = { define: { 'import.meta.url': 'moduleUrl', 'import.meta.resolve': 'require.resolve' } };
const COMMON_BANNER = "const moduleUrl = require('node:url').pathToFileURL(__filename).href;";

/**
 * Layouts of yargs measure texts by a version of this package that compiles a large regular expression for each
 * character: a fifth of what help cost. The one that yargs has itself knows ASCII at once.
 */
const oneWidth = {
  name: 'one-width',
  resolveId: (source, importer = '') =>
    source === 'string-width' && /\/(cliui|wrap-ansi)\//.test(importer)
      ? join(ROOT, 'node_modules/string-width/index.js')
      : undefined,
};

async function bundle(name, path) {
  const isCommon = COMMON.includes(name);
  const build = await rolldown({
    input: { [name]: join(ROOT, path) },
    platform: 'node',
    external: [/^node:/, ...outside],
    plugins: [oneWidth],
    ...(isCommon ? { transform: MODULE_URL } : {}),
    onLog(level, log, handle) {
      if (level === 'warn') throw new Error(log.message);
      handle(level, log);
    },
  });
  const { output } = await build.write({
    dir: RESULT,
    ...(isCommon ? { format: 'cjs', banner: COMMON_BANNER } : { format: 'esm' }),
    sourcemap: true,
    sourcemapExcludeSources: true,
    comments: false,
    entryFileNames: `[name].${isCommon ? 'cjs' : 'js'}`,
    chunkFileNames: `${name}-[name].${isCommon ? 'cjs' : 'js'}`,
  });
  for (const { type, fileName, code, isEntry } of output) {
    if (type !== 'chunk') continue;
    if (isEntry && CACHED.includes(name)) checkImports(fileName, code);
    writeFileSync(join(RESULT, fileName), ascii(code));
  }
}

/** Node loads the chunks of a cached bundle itself, so those may import from outside. */
function checkImports(fileName, code) {
  const found = /\bimport\([^\n)]*\)?/.exec(code);
  if (found !== null)
    throw new Error(`${fileName}: a bundle with a code cache cannot run ${found[0]}: bundle it, or move it to a chunk`);
}

/** V8 reads a file faster whose characters take a byte each. Those that do not stand in strings and regular expressions. */
function ascii(code) {
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function declare(path, target) {
  const { code, errors } = isolatedDeclarationSync(path, readFileSync(join(ROOT, path), 'utf8'));
  if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join('\n'));
  if (/^import /m.test(code)) throw new Error(`the declarations of ${path} need other files:\n${code}`);
  writeFileSync(target, code);
}

rmSync(RESULT, { recursive: true, force: true });
await Promise.all(Object.entries(ENTRIES).map(([name, path]) => bundle(name, path)));
for (const file of FILES) copyFileSync(join(ROOT, 'dist', file), join(RESULT, basename(file)));
copyFileSync(join(ROOT, 'scripts/load.cjs'), join(RESULT, 'load.cjs'));
for (const name of CACHED)
  writeFileSync(join(RESULT, `start-${name}.cjs`), `module.exports = require('./load.cjs').load('${name}');\n`);
declare(NODE, join(RESULT, 'node.d.ts'));
