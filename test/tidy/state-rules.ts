/**
 * No state at module level in src and workers: two nodes live in one process. A module may hold constants, pure tables
 * and functions. `module-state.test.ts` applies the rule and distrusts it.
 */
import { parseSync } from 'oxc-parser';
import type { Sources } from './import-rules.ts';

type Table = Readonly<Record<string, string>>;
type Node = Readonly<Record<string, unknown>>;

/** `file name`, a whole file, or a folder with its slash, with the reason. */
export const ALLOWED: Table = {
  // Entries of a process or a thread: each is loaded once, by the one whose it is.
  'src/operator/main.ts': 'the process of the tool',
  'workers/': 'entries of threads',
  // Scratch memory of one synchronous call, where an object per call would be garbage on the hot path.
  'src/base/hash.ts fnvHigh': 'the running hash of a call',
  'src/base/hash.ts fnvLow': 'the running hash of a call',
  'src/protocol/command.ts partsWithText': 'places in the command that a call writes',
  'src/raft/quorum.ts scratch': 'the sorted indexes of a call',
  'src/shard/frames.ts checked': 'a view of the frame that a call checks',
  // Results of pure functions, by their arguments.
  'src/protocol/media-type.ts normalizedOf': 'bounded',
  'src/protocol/media-type.ts comparedBy': 'bounded',
  'src/nodes/cluster-snapshot.ts indexes': 'ends with its report',
  // Bytes and tables that nothing writes after the module was loaded.
  'src/protocol/message.ts packr': 'packs without shared structures, so it keeps nothing of a call',
  'src/backup/format/document.ts packr': 'packs without shared structures, so it keeps nothing of a call',
  'src/backup/import/importer.ts PREFIX': 'zeros',
  'src/http/routes/snapshot.ts NO_DIGEST': 'zeros',
  'src/stream/core/hot-rows.ts NO_HEAD': 'an empty head',
  'src/stream/core/import-mark.ts NO_DIGEST': 'zeros',
  'src/json/json-scan.ts PLAIN': 'a table',
  'src/json/json-scan.ts ESCAPABLE': 'a table',
  'src/json/json-scan.ts HEX_DIGIT': 'a table',
  'src/subscriptions/webhooks/webhook-url.ts LOOPBACK': 'a table',
  'src/subscriptions/webhooks/webhook-url.ts NOT_PUBLIC_V4': 'a table',
  'src/subscriptions/webhooks/webhook-url.ts NOT_PUBLIC_V6': 'a table',
  'src/subscriptions/webhooks/webhook-url.ts GLOBAL_V6': 'a table',
};

/** Objects of these classes do not change, or not so that a caller would notice. */
const CONSTANT = new Set(['URL', 'RegExp', 'TextEncoder', 'TextDecoder', 'Intl.NumberFormat', 'Error']);
/** Constant where the declared type hides the methods that change them. */
const COLLECTIONS = new Set(['Map', 'Set']);
const READONLY = /^(Readonly|readonly )/;
const MUTATORS = new Set(
  'add append clear copyWithin delete fill pop push reverse set shift sort splice unshift'.split(' '),
);

/** One sentence for each piece of state, and for each exception that is not needed. */
export function stateViolations(sources: Sources, allowed: Table = ALLOWED): string[] {
  const found: string[] = [];
  const needed = new Set<string>();
  for (const [path, text] of sources) {
    for (const [name, what] of stateOf(path, text)) {
      const exception = Object.keys(allowed).find(
        (key) => key === `${path} ${name}` || key === path || (key.endsWith('/') && path.startsWith(key)),
      );
      if (exception === undefined) found.push(`${path}: ${name} ${what}: make it an argument or a field`);
      else needed.add(exception);
    }
  }
  for (const key of Object.keys(allowed)) {
    if (!needed.has(key)) found.push(`${key} is no state at module level: take it out of ALLOWED`);
  }
  return found;
}

/** Names with what makes them state. */
function stateOf(path: string, text: string): (readonly [name: string, what: string])[] {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const statements = (program.body as unknown as readonly Node[]).map((one) =>
    one['type'] === 'ExportNamedDeclaration' && isNode(one['declaration']) ? one['declaration'] : one,
  );
  const declared = statements.filter(({ type }) => type === 'VariableDeclaration');
  const found = new Map<string, string>();
  const constants = new Set<string>();
  for (const declaration of declared) {
    for (const one of declaration['declarations'] as readonly Node[]) {
      const name = text.slice(...rangeOf(one['id'])).replace(/:.*/s, '');
      if (declaration['kind'] !== 'const') found.set(name, `is a module's ${String(declaration['kind'])}`);
      else if (isNode(one['init'])) {
        constants.add(name);
        const made = madeBy(one, text);
        if (made !== undefined) found.set(name, `is a ${made} of the module`);
      }
    }
  }
  for (const name of changed(program as unknown as Node, constants)) {
    if (!found.has(name)) found.set(name, 'of the module is changed');
  }
  for (const name of statics(statements)) found.set(name, 'is a static field that may be assigned');
  return [...found];
}

/** The class of an object that may change; undefined: a constant. */
function madeBy(declarator: Node, text: string): string | undefined {
  const init = declarator['init'] as Node;
  if (init['type'] !== 'NewExpression') return undefined;
  const made = text.slice(...rangeOf(init['callee']));
  if (CONSTANT.has(made)) return undefined;
  const annotation = (declarator['id'] as Node)['typeAnnotation'];
  const type = isNode(annotation) ? text.slice(...rangeOf(annotation['typeAnnotation'])) : '';
  if (COLLECTIONS.has(made) && READONLY.test(type)) return undefined;
  // An array without elements has nothing to change.
  const [size] = init['arguments'] as readonly Node[];
  return made.endsWith('Array') && size?.['type'] === 'Literal' && size['value'] === 0 ? undefined : made;
}

/** Constants of the module whose elements or fields are assigned somewhere in it, or that a method changes. */
function changed(node: Node, constants: ReadonlySet<string>, found = new Set<string>()): ReadonlySet<string> {
  const { type } = node;
  const target =
    type === 'AssignmentExpression'
      ? node['left']
      : type === 'UpdateExpression' || (type === 'UnaryExpression' && node['operator'] === 'delete')
        ? node['argument']
        : type === 'CallExpression' && isMutator(node['callee'])
          ? node['callee']
          : undefined;
  const root = isNode(target) && target['type'] === 'MemberExpression' ? rootOf(target) : undefined;
  if (root !== undefined && constants.has(root)) found.add(root);
  const seen = /Function/.test(String(type)) ? without(constants, localNames(node)) : constants;
  for (const child of Object.values(node).flat()) if (isNode(child)) changed(child, seen, found);
  return found;
}

function without(names: ReadonlySet<string>, hidden: ReadonlySet<string>): ReadonlySet<string> {
  return new Set([...names].filter((name) => !hidden.has(name)));
}

/** Parameters and variables of a function, and of functions in it: they hide the names of the module. */
function localNames(node: Node, found = new Set<string>()): ReadonlySet<string> {
  const names = [
    node['type'] === 'VariableDeclarator' ? node['id'] : undefined,
    ...((node['params'] ?? []) as unknown[]),
  ];
  for (const name of names) if (isNode(name) && name['type'] === 'Identifier') found.add(String(name['name']));
  for (const child of Object.values(node).flat()) if (isNode(child)) localNames(child, found);
  return found;
}

function isMutator(callee: unknown): boolean {
  if (!isNode(callee) || callee['type'] !== 'MemberExpression') return false;
  const method = String((callee['property'] as Node)['name']);
  // A field of a layout has `set` and `clear` too, which write into the bytes that they are given.
  if (/^(set|clear)$/.test(method) && (callee['object'] as Node)['type'] !== 'Identifier') return false;
  return callee['computed'] !== true && MUTATORS.has(method);
}

/** `a` of a.b[c].d; undefined: it begins with a call or with `this`. */
function rootOf(node: Node): string | undefined {
  if (node['type'] === 'Identifier') return String(node['name']);
  const inner = node['object'] ?? node['expression'];
  return isNode(inner) ? rootOf(inner) : undefined;
}

function statics(statements: readonly Node[]): string[] {
  return statements
    .filter(({ type }) => type === 'ClassDeclaration')
    .flatMap((one) => (one['body'] as Node)['body'] as readonly Node[])
    .filter((one) => one['type'] === 'PropertyDefinition' && one['static'] === true && one['readonly'] !== true)
    .map((one) => String((one['key'] as Node)['name']));
}

function rangeOf(node: unknown): [start: number, end: number] {
  return isNode(node) ? [node['start'] as number, node['end'] as number] : [0, 0];
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}
