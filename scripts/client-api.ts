/** `src/client/api.md`: what the modules of the client library export, as the compiler declares it. */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import ts from 'typescript-5';

const FOLDER = 'src/client';
/** Modules that programs import, and by which names. */
const MODULES = [
  ['client', 'millrace-client'],
  ['resumable-stream', 'millrace-client/resumable-stream'],
  ['assistant-stream', 'millrace-client/assistant-stream'],
  ['web-streams', 'millrace-client/web-streams'],
  ['workflow-streams', 'millrace-client/workflow-streams'],
  ['workflow-world', 'millrace-client/workflow-world'],
] as const;

interface Declaration {
  readonly name: string | undefined;
  readonly text: string;
}

export function describeClientApi(): string {
  const parts = MODULES.map(([module, name]) => {
    const declarations = exportsOf(module).map(({ text }) => text);
    return `## \`${name}\`\n\n\`\`\`ts\n${declarations.join('\n\n')}\n\`\`\`\n`;
  });
  return [
    '# API of the client library\n',
    'What [the library](README.md) exports, written by `npm run docs` from its declarations.\n',
    ...parts,
  ].join('\n');
}

/** Those of the module itself first, then those that it passes on. */
function exportsOf(module: string): readonly Declaration[] {
  const fileName = `${FOLDER}/${module}.ts`;
  const options = { fileName, compilerOptions: { target: ts.ScriptTarget.ES2023 } };
  const { outputText } = ts.transpileDeclaration(readFileSync(fileName, 'utf8'), options);
  const source = ts.createSourceFile(fileName, outputText, ts.ScriptTarget.ES2023, true);
  const own = source.statements.filter(isExported).map((statement) => {
    const { name, end } = statement;
    // The first one of a file has the comment of the file in front of its own.
    const start = ts.getJSDocCommentsAndTags(statement).at(-1)?.pos ?? statement.getStart(source);
    return { name: name?.text, text: readable(outputText.slice(start, end)) };
  });
  return [...own, ...source.statements.filter(ts.isExportDeclaration).flatMap(passedOn)];
}

type Exported = ts.FunctionDeclaration | ts.ClassDeclaration | ts.InterfaceDeclaration | ts.TypeAliasDeclaration;

function isExported(statement: ts.Statement): statement is Exported {
  const isDeclaration =
    ts.isFunctionDeclaration(statement) ||
    ts.isClassDeclaration(statement) ||
    ts.isInterfaceDeclaration(statement) ||
    ts.isTypeAliasDeclaration(statement);
  return isDeclaration && statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true;
}

function passedOn({ exportClause, moduleSpecifier }: ts.ExportDeclaration): readonly Declaration[] {
  if (exportClause === undefined || moduleSpecifier === undefined) return [];
  if (!ts.isNamedExports(exportClause) || !ts.isStringLiteral(moduleSpecifier)) return [];
  const names: readonly (string | undefined)[] = exportClause.elements.map(({ name }) => name.text);
  return exportsOf(basename(moduleSpecifier.text, '.ts')).filter(({ name }) => names.includes(name));
}

/** Without what programs cannot use: private parts, constructors, the names that options are taken apart into. */
function readable(declaration: string): string {
  return declaration
    .replace(/^export (?:declare )?/m, '')
    .replaceAll(/^ +#private;\n/gm, '')
    .replaceAll(/^(?: +\/\*\* .*\*\/\n)? +constructor\(.*\);\n/gm, '')
    .replaceAll(/\{ [\w, ]+ \}(\??): (?=\w)/g, 'options$1: ')
    .replaceAll(/^(?: {4})+/gm, (blanks) => ' '.repeat(blanks.length / 2));
}
