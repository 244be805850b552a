/** The parts of the documents that are written by `npm run docs`, between two comments. */
import { ERRORS, type ErrorRow } from '../src/base/errors.ts';
import { describeOptions } from '../src/config/describe.ts';

export interface GeneratedPart {
  /** Path of the document. */
  readonly path: string;
  /** As the comments name it. */
  readonly name: string;
  /** Markdown, ending with a newline. */
  readonly write: () => string;
}

export const GENERATED: readonly GeneratedPart[] = [
  { path: 'src/config/README.md', name: 'options', write: describeOptions },
  { path: 'src/http/README.md', name: 'errors', write: describeErrors },
];

/** The document with its part written anew. Throws when the comments are missing. */
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
