// The documents: at every door, of bounded length, with links that lead somewhere, fresh tables, and commands that a
// test executes.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { posix } from 'node:path';
import { test } from 'node:test';
import { GENERATED, GENERATED_FILES, withPart } from '../../scripts/generated.ts';
import { ERRORS } from '../../src/base/errors.ts';
import { OPTION_KEYS } from '../../src/config/options.ts';
import {
  type Block,
  anchorsOf,
  blocksOf,
  codeOf,
  documentPaths,
  linksOf,
  proseOf,
  readDocument,
} from '../support/documents.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { exists, readText, sourcePaths } from './repository.ts';

const README_LINES_MAX = 200;
const DOOR_LINES_MAX = 150;
/** Documents whose tables and tasks need more room. */
const LONG_LINES_MAX: Readonly<Record<string, number>> = {
  'src/README.md': 200,
  'src/http/README.md': 620,
  'src/operator/README.md': 500,
  'src/config/README.md': 200,
  'bench/README.md': 300,
  // Generated, as long as the declarations are.
  'src/client/api.md': 500,
  // With the generated tables of planted bugs and of costs.
  'test/README.md': 380,
  'CHANGELOG.md': Infinity,
};
/** Executes all blocks with its mark, in any document. */
const SESSIONS = 'test/readme/sessions.test.ts';
const REASON_CHARS_MIN = 20;
/** Words that no native engineer would use here, or that say nothing. */
const BANNED =
  /\b(shall|whoever|nobody|for ever|errands?|wire-facts|service\.md|decisions\.md|design\.md|house\.md)\b/i;

const ENVIRONMENT = /^(MILLRACE|AWS|NODE|OTEL)_/;
const KEYS: readonly string[] = OPTION_KEYS;
const SECTIONS = new Set(KEYS.map((key) => key.split('.')[0] ?? ''));

/** Signs that a reader looks for at every door. */
const SIGNS: readonly (readonly [string, RegExp])[] = [
  ['what the room promises, numbered', /^1\. /m],
  ['how to change it', /\bto change\b|\*\*To add\b/i],
  ['where its tests are', /^Tests: /m],
  ['what it may import', /<!-- imports: /],
];

const documents = documentPaths();

/** One complaint for each fault in any document. */
function faults(look: (markdown: string, path: string) => readonly string[]): string[] {
  return documents.flatMap((path) => look(readDocument(path), path).map((fault) => `${path}: ${fault}`));
}

test('every room has a document at its door', () => {
  const entries = readdirSync(`${REPO_ROOT}/src`, { withFileTypes: true });
  const rooms = entries.filter((entry) => entry.isDirectory());
  const without = rooms.map(({ name }) => `src/${name}/README.md`).filter((path) => !documents.includes(path));
  assert.deepEqual(without, []);
  const map = new Set(linksOf(readDocument('src/README.md')));
  assert.deepEqual(
    rooms.map(({ name }) => `${name}/README.md`).filter((path) => !map.has(path)),
    [],
    'src/README.md is the map of all rooms',
  );
  const incomplete = rooms.flatMap(({ name }) => {
    const markdown = readDocument(`src/${name}/README.md`);
    return SIGNS.filter(([, sign]) => !sign.test(markdown)).map(
      ([what]) => `src/${name}/README.md: ${what} is missing`,
    );
  });
  assert.deepEqual(incomplete, []);
});

test('documents have one title and are as short as their readers want them', () => {
  const found = faults((markdown, path) => {
    const lines = markdown.split('\n').length - 1;
    const most = path === 'README.md' ? README_LINES_MAX : (LONG_LINES_MAX[path] ?? DOOR_LINES_MAX);
    const titles = proseOf(markdown).filter((line) => line.startsWith('# ')).length;
    return [
      ...(lines > most ? [`${lines} lines; ${most} at most`] : []),
      ...(titles === 1 ? [] : [`${titles} titles of the first level`]),
    ];
  });
  assert.deepEqual(found, []);
});

test('links lead to a file or a heading', () => {
  const found = faults((markdown, path) => linksOf(markdown).flatMap((link) => linkFault(path, link) ?? []));
  assert.deepEqual(found, []);
});

function linkFault(path: string, link: string): string | undefined {
  if (link.startsWith('https://')) return undefined;
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? path : posix.join(posix.dirname(path), file);
  if (!exists(target)) return `${link}: no such file`;
  if (anchor === undefined) return undefined;
  return anchorsOf(readDocument(target)).has(anchor) ? undefined : `${link}: no such heading`;
}

test('what npm run docs writes is fresh', () => {
  for (const part of GENERATED) {
    const document = readDocument(part.path);
    assert(withPart(document, part) === document, `${part.path}, ${part.name}: run npm run docs`);
  }
  for (const { path, write } of GENERATED_FILES) assert(readText(path) === write(), `${path}: run npm run docs`);
});

test('every block of shell names the test that executes it, or the reason why none does', () => {
  const found = faults((markdown, path) => blocksOf(markdown).flatMap((block) => blockFault(path, block) ?? []));
  assert.deepEqual(found, []);
});

function blockFault(path: string, { heading, language, comment }: Block): string | undefined {
  if (/^(bash|shell|console|zsh)/.test(language)) return `${heading}: blocks of shell are sh`;
  if (language !== 'sh') return undefined;
  const reason = /^not run: (.*)$/.exec(comment ?? '')?.[1];
  if (reason !== undefined) {
    return reason.length >= REASON_CHARS_MIN ? undefined : `${heading}: "${reason}" is no reason`;
  }
  const file = /^run: (test\/\S+\.test\.ts)$/.exec(comment ?? '')?.[1];
  if (file === undefined)
    return `${heading}: the line above the block is neither <!-- run: FILE --> nor <!-- not run: REASON -->`;
  if (!exists(file)) return `${heading}: ${file} does not exist`;
  const text = readText(file);
  if (file === SESSIONS || (text.includes(`'${path}'`) && text.includes(heading))) return undefined;
  return `${heading}: ${file} does not name this document and this heading`;
}

test('commands, scenarios, tests, paths, keys and refusals that documents name exist', () => {
  const scripts = (JSON.parse(readText('package.json')) as { scripts: Record<string, string> }).scripts;
  const tests = sourcePaths(['test']).filter((path) => path.endsWith('.test.ts'));
  const scenarios = sourcePaths(['bench/scenarios']).map(readText).join('\n');
  const spans = readText('src/http/traced-request.ts');
  const clientErrors = readText('src/client/error.ts');
  const known: Known = {
    script: (name) => ['test', 'start', 'install', 'ci', 'link', 'pack'].includes(name) || scripts[name] !== undefined,
    test: (word) => tests.some((path) => path.slice('test/'.length).includes(word)),
    scenario: (name) => scenarios.includes(`'${name}'`),
    code: (name) => Object.hasOwn(ERRORS, name) || ENVIRONMENT.test(name) || clientErrors.includes(`'${name}'`),
    // Words that do not begin as a key does name a file, or something else. Attributes of spans look like keys.
    key: (name) =>
      !SECTIONS.has(name.split('.')[0] ?? '') ||
      KEYS.some((key) => key === name || key.startsWith(`${name}.`)) ||
      spans.includes(`'${name}'`),
  };
  const found = faults((markdown, path) =>
    path === 'CHANGELOG.md' ? [] : codeOf(markdown).flatMap((code) => codeFaults(code, known)),
  );
  assert.deepEqual(found, []);
});

test('source files that documents name exist, by their path from the room, from src or from the root', () => {
  const paths = sourcePaths(['src', 'workers', 'bench', 'test', 'scripts']);
  const found = faults((markdown, path) =>
    path === 'CHANGELOG.md'
      ? []
      : codeOf(markdown).filter((code) => /^[\w/.-]+\.ts$/.test(code) && !names(code, posix.dirname(path), paths)),
  );
  assert.deepEqual(found, []);
});

/** Whether the name leads to a file; one without a folder is looked for in the whole room. */
function names(code: string, room: string, paths: readonly string[]): boolean {
  if (paths.some((path) => [code, `src/${code}`, `${room}/${code}`].includes(path))) return true;
  return !code.includes('/') && paths.some((path) => path.startsWith(`${room}/`) && path.endsWith(`/${code}`));
}

interface Known {
  readonly script: (name: string) => boolean;
  readonly test: (word: string) => boolean;
  readonly scenario: (name: string) => boolean;
  readonly code: (name: string) => boolean;
  readonly key: (name: string) => boolean;
}

function codeFaults(code: string, known: Known): string[] {
  const command = code.replace(/\s#\s.*$/, '');
  const found: string[] = [];
  if (/^(src|workers|bench|test|scripts)(\/[\w.-]+)+\/?$/.test(command) && !exists(command)) {
    found.push(`${command} does not exist`);
  }
  if (/^[A-Z]+(?:_[A-Z]+)+$/.test(command) && !known.code(command)) found.push(`${command}: no such refusal`);
  if (/^[a-z]+(?:\.[a-z0-9_]+)+$/.test(command) && !known.key(command)) found.push(`${command}: no such key`);
  const script = /\bnpm (?:run (?:-s )?)?([a-z-]+)/.exec(command)?.[1];
  if (script !== undefined && !known.script(script)) found.push(`npm run ${script}: no such script`);
  for (const word of wordsOf(/\bnpm test -- (.*)$/, command)) {
    if (!known.test(word)) found.push(`npm test -- ${word}: no such test`);
  }
  for (const word of wordsOf(/\bnpm run bench -- (.*)$/, command)) {
    if (!known.scenario(word)) found.push(`npm run bench -- ${word}: no such scenario`);
  }
  return found;
}

/** Arguments that are neither flags nor values of flags. */
function wordsOf(pattern: RegExp, command: string): string[] {
  const words = pattern.exec(command)?.[1]?.split(' ') ?? [];
  return words.filter((word, i) => word !== '' && !word.startsWith('-') && !(words[i - 1] ?? '').startsWith('--'));
}

test('the language of documents is plain', () => {
  const found = faults((markdown, path) =>
    path === 'CHANGELOG.md' ? [] : proseOf(markdown).filter((line) => BANNED.test(line.replaceAll(/`[^`]*`/g, ''))),
  );
  assert.deepEqual(found, []);
});

test('the gates see what they are for', () => {
  const markdown = '# A b: `c`!\n[x](#a-b-c)\n```sh\nnpm test -- nothing # [y](z.md)\n```\n`src/none/x.ts`';
  assert.deepEqual([...anchorsOf(markdown)], ['a-b-c']);
  assert.deepEqual(linksOf(markdown), ['#a-b-c']);
  assert.match(linkFault('README.md', 'src/none.md') ?? '', /no such file/);
  assert.match(linkFault('README.md', '#none') ?? '', /no such heading/);
  assert(names('a.ts', 'src/x', ['src/x/y/a.ts']) && names('y/a.ts', 'test', ['src/y/a.ts']));
  assert(!names('a.ts', 'src/z', ['src/x/y/a.ts']) && !names('x/a.ts', 'src', ['src/x/y/a.ts']));
  const nothing: Known = {
    script: () => false,
    test: () => false,
    scenario: () => false,
    code: () => false,
    key: () => false,
  };
  assert.deepEqual(
    codeOf(markdown).flatMap((code) => codeFaults(code, nothing)),
    ['src/none/x.ts does not exist', 'npm run test: no such script', 'npm test -- nothing: no such test'],
  );
  assert.deepEqual(codeFaults('NO_SUCH', nothing), ['NO_SUCH: no such refusal']);
  assert.deepEqual(codeFaults('raft.no_such', nothing), ['raft.no_such: no such key']);
  assert.deepEqual(codeFaults('npm run bench -- a --gib 10', nothing).slice(1), [
    'npm run bench -- a: no such scenario',
  ]);
  const block: Block = { heading: '# A', language: 'sh', comment: undefined, lines: [] };
  assert.match(blockFault('README.md', block) ?? '', /neither/);
  assert.match(blockFault('README.md', { ...block, comment: 'not run: no' }) ?? '', /no reason/);
  assert.match(blockFault('README.md', { ...block, comment: `run: test/tidy/lint.test.ts` }) ?? '', /does not name/);
  assert.match('Nobody shall', BANNED);
});
