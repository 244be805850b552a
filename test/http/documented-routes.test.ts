// Every route of both planes stands in a table of src/http/README.md, with its methods.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ADMIN_ROWS, CLIENT_ROWS } from '../../src/http/routes/table.ts';
import { proseOf, readDocument } from '../support/documents.ts';

const METHOD = /^(GET|HEAD|POST|PUT|DELETE)$/;

/** As `GET /{}/{}`: what variables are called is not compared, and GET includes HEAD. */
function key(method: string, pattern: string): string {
  return `${method === 'HEAD' ? 'GET' : method} ${pattern.replaceAll(/\{[^}]*\}/g, '{}')}`;
}

/**
 * Methods stand in front of their path, in the same or in earlier backquotes; a path without a method has those of the
 * one before.
 */
function routesOf(cell: string): string[] {
  const found: string[] = [];
  let methods: string[] = [];
  let isOpen = false;
  for (const span of cell.matchAll(/`([^`]+)`/g)) {
    for (const word of (span[1] ?? '').split(' ')) {
      if (METHOD.test(word)) {
        methods = isOpen ? [...methods, word] : [word];
        isOpen = true;
      } else if (word.startsWith('/')) {
        const path = word.split('?')[0] ?? '';
        const optional = /^(.*)\[(.*)\]$/.exec(path);
        const paths = optional === null ? [path] : [optional[1] ?? '', `${optional[1]}${optional[2]}`];
        for (const one of paths) found.push(...methods.map((method) => key(method, one)));
        isOpen = false;
      }
    }
  }
  return found;
}

test('routes are documented', () => {
  const rows = proseOf(readDocument('src/http/README.md')).filter((line) => line.startsWith('| '));
  const documented = new Set(rows.flatMap((row) => routesOf(row.split(' | ')[0] ?? '')));
  // Subscriptions have documents of their own.
  const routes = [...CLIENT_ROWS, ...ADMIN_ROWS].filter(({ methods }) => !methods.includes('*'));
  const missing = routes
    .flatMap(({ methods, pattern }) => methods.map((method) => key(method, pattern)))
    .filter((route) => !documented.has(route));
  assert.deepEqual([...new Set(missing)], []);
});

test('the reader of the tables understands lists of methods and paths', () => {
  assert.deepEqual(routesOf('| `PUT` · `GET /a[/{x}]` · `/b?c`, `POST` `/d`'), [
    'PUT /a',
    'GET /a',
    'PUT /a/{}',
    'GET /a/{}',
    'PUT /b',
    'GET /b',
    'POST /d',
  ]);
});
