/** The parts of the documents that are written by `npm run docs`, between two comments. */
import { existsSync, readFileSync } from 'node:fs';
import { ERRORS, type ErrorRow } from '../src/base/errors.ts';
import { PLANTED_BUGS } from '../src/base/planted-bugs.ts';
import { describeOptions } from '../src/config/describe.ts';
import { VERSION } from '../src/config/version.ts';
import { FAMILIES } from '../src/exporter/families.ts';
import type { CommandTraits, QueryTraits } from '../src/protocol/operation.ts';
import { ADMIN_ROWS, CLIENT_ROWS, type RouteRow } from '../src/http/routes/table.ts';
import { COMMANDS, QUERIES } from '../src/protocol/operations.ts';
import { FOUND_BY } from '../test/sim/fixed-seeds.ts';
import { DISK_FAULTS } from '../test/sim/disk-faults.ts';
import { ROOMS, allowedTo, floorOf } from '../test/tidy/import-rules.ts';
import { PACKAGE_HOME, PURE } from '../test/tidy/rooms.ts';
import { describeClientApi } from './client-api.ts';
import { LAYOUTS, describeLayouts } from './layouts.ts';
import { openApiDocument } from './openapi/document.ts';

export interface GeneratedPart {
  /** Path of the document. */
  readonly path: string;
  /** As the comments name it. */
  readonly name: string;
  /** Markdown, ending with a newline. */
  readonly write: () => string;
}

/** Longer lists than this say what they have in common, if they can. */
const LISTED_MAX = 10;

const dependencies = Object.keys(
  (JSON.parse(readFileSync('package.json', 'utf8')) as { dependencies: Record<string, string> }).dependencies,
);
const rooms = [...new Set(ROOMS.map((part) => part.split('/')[0] ?? ''))];

export const GENERATED: readonly GeneratedPart[] = [
  { path: 'src/config/README.md', name: 'options', write: describeOptions },
  { path: 'src/http/README.md', name: 'errors', write: describeErrors },
  { path: 'src/http/README.md', name: 'routes', write: describeRoutes },
  { path: 'src/exporter/README.md', name: 'metric names', write: describeMetrics },
  { path: 'test/README.md', name: 'planted bugs', write: describePlantedBugs },
  { path: 'src/protocol/README.md', name: 'operations', write: describeOperations },
  ...Object.entries(LAYOUTS).map(([path, layouts]) => ({
    ...{ path, name: 'layouts', write: () => describeLayouts(layouts) },
  })),
  ...rooms
    .map((room) => ({ path: `src/${room}/README.md`, name: 'imports', write: () => describeImports(room) }))
    .filter(({ path }) => existsSync(path)),
];

/** Files that are generated whole. */
export const GENERATED_FILES: readonly Pick<GeneratedPart, 'path' | 'write'>[] = [
  { path: 'src/http/openapi.json', write: describeApi },
  { path: 'src/client/api.md', write: describeClientApi },
];

/** The document with its part regenerated. Throws when the comments are missing. */
export function withPart(document: string, { path, name, write }: GeneratedPart): string {
  const first = `<!-- ${name}: written by npm run docs -->`;
  const last = `<!-- end of ${name} -->`;
  const start = document.indexOf(first);
  const end = document.indexOf(last);
  if (start < 0 || end < start) throw new Error(`${path} needs the lines ${first} and ${last}`);
  return `${document.slice(0, start + first.length)}\n\n${write()}\n${document.slice(end)}`;
}

function describeErrors(): string {
  const rows = Object.entries<ErrorRow>(ERRORS)
    .filter(([code]) => code !== 'OK')
    .map(([code, { bucketed, flat, retry, text }]) => {
      const status = flat === bucketed ? String(bucketed) : `${bucketed}, flat ${flat}`;
      return `| \`${code}\` | ${status} | ${retry ? 'yes' : ''} | ${text} |`;
    });
  return ['| Code | Status | Retry | Sentence |', '| --- | --- | --- | --- |', ...rows, ''].join('\n');
}

/** The OpenAPI document of both planes. */
function describeApi(): string {
  const rows = { client: CLIENT_ROWS, admin: ADMIN_ROWS };
  return `${JSON.stringify(openApiDocument({ rows, version: VERSION, plane: 'admin' }), undefined, 2)}\n`;
}

/** Every row of src/http/routes/table.ts with its traits; rows of both planes stand once. */
function describeRoutes(): string {
  const cells = (row: RouteRow, plane: string, access: string): string => {
    const { methods, pattern, operation, bodyBytesMax } = row;
    const body = bodyBytesMax === undefined ? '' : sizeOf(bodyBytesMax);
    return `| \`${methods.join(' ')}\` | \`${pattern}\` | ${plane} | \`${operation}\` | ${access} | ${body} |`;
  };
  const isSame = (row: RouteRow, other: RouteRow): boolean =>
    row.pattern === other.pattern && row.methods.join() === other.methods.join();
  const ofClients = CLIENT_ROWS.map((row) => {
    const other = ADMIN_ROWS.find((one) => isSame(one, row));
    if (other === undefined) return cells(row, 'client', accessOf(row));
    return cells(row, 'both', [...new Set([accessOf(row), accessOf(other)])].join(' · '));
  });
  const ofOperators = ADMIN_ROWS.filter((row) => !CLIENT_ROWS.some((one) => isSame(one, row)));
  return [
    '| Methods | Path | Plane | Counted as | Access | Body |',
    '| --- | --- | --- | --- | --- | --- |',
    ...ofClients,
    ...ofOperators.map((row) => cells(row, 'admin', accessOf(row))),
    '',
  ].join('\n');
}

function accessOf(row: RouteRow): string {
  return row.access ?? (row.role === undefined ? rightOfRow(row) : `\`${row.role}\``);
}

/** The right that the row asks of a token of the client plane. */
function rightOfRow({ right }: RouteRow): string {
  if (right === undefined) return 'all rights';
  if (right === 'any') return 'token';
  return `\`${right.operation}\`${right.on === 'bucket' ? ' on the bucket' : ''}`;
}

function sizeOf(bytes: number): string {
  const isMib = bytes % (1024 * 1024) === 0;
  return isMib ? `${bytes / (1024 * 1024)} MiB` : `${bytes / 1024} KiB`;
}

/** Mistakes that the simulator can make on purpose, and the seed that finds each. */
function describePlantedBugs(): string {
  const seedOf = (name: string): string => (FOUND_BY[name] === undefined ? '' : `0x${FOUND_BY[name].toString(16)}`);
  const row = (name: string, about: string): string => `| \`${name}\` | ${about} | ${seedOf(name)} |`;
  return [
    '| Point in the code | What it does wrong | Seed |',
    '| --- | --- | --- |',
    ...Object.entries<string>(PLANTED_BUGS).map(([name, about]) => row(name, about)),
    '',
    '| Fault of the simulated disk | What it does wrong | Seed |',
    '| --- | --- | --- |',
    ...Object.entries(DISK_FAULTS).map(([name, { about }]) => row(name, about)),
    '',
  ].join('\n');
}

/** Every operation with its traits, as src/protocol/operations.ts has them. */
function describeOperations(): string {
  const yes = (trait: boolean): string => (trait ? 'yes' : '');
  const commands = Object.entries<CommandTraits>(COMMANDS).map(([name, traits]) => {
    const { number, forwardable, wouldAddBytes, freesSpace, body, quota } = traits;
    const cells = [yes(forwardable), yes(wouldAddBytes), yes(freesSpace), orNothing(body), orNothing(quota)];
    return `| \`${name}\` | ${number} | ${cells.join(' | ')} |`;
  });
  const queries = Object.entries<QueryTraits>(QUERIES).map(
    ([name, { number, scope, needsLeaders }]) => `| \`${name}\` | ${number} | ${scope} | ${yes(needsLeaders)} |`,
  );
  return [
    '| Command | Number | Forwarded | Adds bytes | Frees space | Body | Quota |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...commands,
    '',
    '| Query | Number | Answered by | Confirmed by leaders |',
    '| --- | --- | --- | --- |',
    ...queries,
    '',
  ].join('\n');
}

function orNothing(value: string): string {
  return value === 'none' ? '' : value;
}

/** The floor of a room and what it may import, or those of each part with separate rules. */
function describeImports(room: string): string {
  const parts = ROOMS.filter((part) => part === room || part.startsWith(`${room}/`));
  if (parts.length === 1) {
    const purity = PURE.includes(room) ? ' Pure: no `node:` module, no clock, no randomness, no `async`.' : '';
    const packages = packagesOf(room);
    const more = packages === '' ? '' : ` Packages: ${packages}.`;
    return `On floor ${floorOf(room)}; may import ${importsOf(room)}.${purity}${more}\n`;
  }
  const rows = parts.map((part) => {
    const more = PURE.includes(part) ? 'pure' : packagesOf(part);
    return `| \`${part}\` | ${floorOf(part)} | ${importsOf(part)} | ${more} |`;
  });
  return ['| Part | Floor | May import | Packages |', '| --- | --- | --- | --- |', ...rows, ''].join('\n');
}

function importsOf(part: string): string {
  const allowed = allowedTo(part);
  const isPort = (other: string): boolean => other.endsWith('.ts');
  if (allowed.length === 0) return 'nothing';
  const below = ROOMS.filter((other) => !isPort(other) && floorOf(other) < floorOf(part));
  const missing = below.filter((other) => !allowed.includes(other));
  if (missing.length === 0 && allowed.length > LISTED_MAX) return 'every lower floor';
  const pure = PURE.filter((room) => !isPort(room));
  if (!pure.every((room) => allowed.includes(room))) return listOf(allowed);
  return ['every pure part', listOf(allowed.filter((other) => !PURE.includes(other)))].join(', ');
}

/** Dependencies that only this part, or few others, may know. */
function packagesOf(part: string): string {
  const homes = PACKAGE_HOME.filter(([, ...rooms]) => rooms.includes(part));
  return listOf(dependencies.filter((name) => homes.some(([pattern]) => pattern.test(name))));
}

function listOf(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}

/** The metrics of `millracectl exporter`. */
function describeMetrics(): string {
  const rows = FAMILIES.map(({ name, kind, labels, help, from }) => {
    const path = from.includes(' ') ? from : `\`${from.split('.').join('` `')}\``;
    return `| \`${name}\` | ${kind} | ${labels.join(', ')} | ${help} | ${path} |`;
  });
  return [
    '| Name | Type | Labels | What it tells | In the JSON of a node |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n');
}
