/**
 * The architecture of the folders as a function from sources to violations. `imports.test.ts` applies and distrusts it.
 */
import { posix } from 'node:path';
import { parseSync } from 'oxc-parser';
import { ALL_BELOW, FLOORS, type Floor, PACKAGE_HOME, PURE, PURE_PACKAGE } from './rooms.ts';

/** Path from the repository's root with forward slashes -> text. */
export type Sources = ReadonlyMap<string, string>;

const FLOOR_OF: ReadonlyMap<string, number> = new Map(
  FLOORS.flatMap((floor, number) => Object.keys(floor).map((room) => [room, number])),
);
const ROWS: ReadonlyMap<string, readonly string[]> = new Map(FLOORS.flatMap((floor) => Object.entries(floor)));

/** The rooms, their parts and ports, lowest first; what each may import; and the number of its floor. */
export const ROOMS: readonly string[] = [...ROWS.keys()];

export function allowedTo(room: string): readonly string[] {
  const allowed = ROWS.get(room) ?? [];
  return allowed.includes(ALL_BELOW) ? ROOMS.filter((other) => floorOf(other) < floorOf(room)) : allowed;
}

export function floorOf(room: string): number {
  return FLOOR_OF.get(room) ?? -1;
}

/** One sentence for each row of the table that names a room on no lower floor. */
export function faultsOfPlan(floors: readonly Floor[]): string[] {
  const below = new Set<string>();
  return floors.flatMap((floor) => {
    const faults = Object.entries(floor).flatMap(([room, allowed]) =>
      allowed
        .filter((other) => other !== ALL_BELOW && !below.has(other))
        .map((other) => `${room} may not name ${other}, which is not on a lower floor`),
    );
    for (const room of Object.keys(floor)) below.add(room);
    return faults;
  });
}

const IMPURE_GLOBALS = new Set(
  (
    'Date performance process Buffer crypto console fetch require globalThis Promise ' +
    'setTimeout setInterval setImmediate clearTimeout clearInterval queueMicrotask'
  ).split(' '),
);

interface Import {
  readonly specifier: string;
  readonly typeOnly: boolean;
  readonly reExport: boolean;
}

type Node = Readonly<Record<string, unknown>>;

interface Parsed {
  readonly body: readonly Node[];
  readonly imports: readonly Import[];
}

/** One sentence for each violation in src/ and workers/; empty when the rules hold. */
export function violations(sources: Sources): string[] {
  const found: string[] = [];
  const graph = new Map<string, string[]>();
  for (const [path, text] of sources) {
    const parsed = parse(path, text);
    const room = roomOf(path);
    if (floorOf(room) < 0) found.push(`${path}: the folder ${room} has no floor`);
    const edges: string[] = [];
    for (const one of parsed.imports) {
      const target = one.specifier.startsWith('.') ? posix.join(posix.dirname(path), one.specifier) : undefined;
      const complaint =
        target === undefined ? packageFault(room, one.specifier) : importFault(room, target, one, sources);
      if (complaint !== undefined) found.push(`${path}: ${complaint}`);
      if (target !== undefined) edges.push(target);
    }
    graph.set(path, edges);
    if (isBarrel(path, parsed)) found.push(`${path}: a file that only re-exports others`);
    if (PURE.includes(room)) found.push(...impurities(parsed.body).map((what) => `${path}: ${what} in a pure folder`));
  }
  return [...found, ...cycles(graph)];
}

/** The files that a file imports, by their path. */
export function importsIn(path: string, text: string): string[] {
  return parse(path, text)
    .imports.filter(({ specifier }) => specifier.startsWith('.'))
    .map(({ specifier }) => posix.join(posix.dirname(path), specifier));
}

function parse(path: string, text: string): Parsed {
  const { program, module, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const imports: Import[] = module.staticImports.map((one) => ({
    specifier: one.moduleRequest.value,
    typeOnly: one.entries.length > 0 && one.entries.every((entry) => entry.isType),
    reExport: false,
  }));
  for (const { entries } of module.staticExports) {
    for (const entry of entries) {
      if (entry.moduleRequest === null) continue;
      imports.push({ specifier: entry.moduleRequest.value, typeOnly: entry.isType, reExport: true });
    }
  }
  return { body: program.body as unknown as readonly Node[], imports };
}

/**
 * The longest row that holds the file: `base` of src/base/x.ts, `stream/core` of src/stream/core/x.ts, `http` of
 * src/http/live/x.ts, `ports.ts` of src/ports.ts, `workers` of workers/x.ts.
 */
function roomOf(path: string): string {
  const [top = '', ...inside] = path.split('/');
  if (top !== 'src') return top;
  const rows = inside.map((_, depth) => inside.slice(0, depth + 1).join('/')).filter((row) => ROWS.has(row));
  return rows.at(-1) ?? inside[0] ?? top;
}

function importFault(room: string, target: string, one: Import, sources: Sources): string | undefined {
  if (!sources.has(target))
    return `imports ${target}, which is not a source file in src or workers (imports end in .ts)`;
  const to = roomOf(target);
  if (to === room) return undefined;
  const isPort = to.endsWith('.ts');
  if (room.endsWith('.ts') && !one.typeOnly) return `imports ${target} as a value; ports are types`;
  const folder = isPort ? posix.dirname(to) : to;
  const isAllowed = (isPort && !PURE.includes(room)) || folder === room || allowedTo(room).includes(folder);
  if (!isAllowed) return `${room} must not import ${to} (${target})`;
  if (floorOf(to) < floorOf(room)) return undefined;
  return `${room} on floor ${floorOf(room)} must not import ${to} on floor ${floorOf(to)} (${target})`;
}

function packageFault(room: string, specifier: string): string | undefined {
  if ((PURE.includes(room) && !PURE_PACKAGE.test(specifier)) || room.endsWith('.ts'))
    return `imports ${specifier}; pure folders and ports import nothing from outside`;
  for (const [name, ...homes] of PACKAGE_HOME) {
    if (name.test(specifier) && !homes.includes(room))
      return `imports ${specifier}, which only src/${homes.join(' and src/')} may know`;
  }
  return undefined;
}

function isBarrel(path: string, { body, imports }: Parsed): boolean {
  if (/(^|\/)index\.ts$/.test(path)) return true;
  if (!imports.some((one) => one.reExport)) return false;
  return body.every((statement) => {
    if (statement['type'] === 'ImportDeclaration' || statement['type'] === 'ExportAllDeclaration') return true;
    return statement['type'] === 'ExportNamedDeclaration' && statement['declaration'] === null;
  });
}

function impurities(body: readonly Node[]): string[] {
  const found = new Set<string>();
  for (const statement of body) visit(statement, found);
  return [...found];
}

function visit(node: Node, found: Set<string>): void {
  const { type } = node;
  if (node['async'] === true) found.add('async function');
  if (type === 'AwaitExpression' || (type === 'ForOfStatement' && node['await'] === true)) found.add('await');
  if (type === 'ImportExpression') found.add('import()');
  if (type === 'MetaProperty' && nameOf(node['meta']) === 'import') found.add('import.meta');
  if (type === 'Identifier' && IMPURE_GLOBALS.has(String(node['name']))) found.add(String(node['name']));
  if (type === 'MemberExpression' && nameOf(node['object']) === 'Math' && nameOf(node['property']) === 'random') {
    found.add('Math.random');
  }
  for (const [key, child] of Object.entries(node)) {
    // `x.process`, `{ process: 1 }` and a method called process are names, not uses of a global.
    if ((key === 'property' || key === 'key') && node['computed'] !== true) continue;
    for (const one of Array.isArray(child) ? (child as readonly unknown[]) : [child])
      if (isNode(one)) visit(one, found);
  }
}

function nameOf(node: unknown): unknown {
  return isNode(node) ? node['name'] : undefined;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}

/** Types count too: two files that need each other's types are one idea in two files. */
export function cycles(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const trail: string[] = [];
  const walk = (path: string): void => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      found.push(`import cycle: ${[...trail.slice(start), path].join(' -> ')}`);
      return;
    }
    if (done.has(path)) return;
    trail.push(path);
    for (const next of graph.get(path) ?? []) walk(next);
    trail.pop();
    done.add(path);
  };
  for (const path of graph.keys()) walk(path);
  return found;
}
