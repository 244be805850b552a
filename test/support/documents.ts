// The documents of the repository: the text below a heading, code blocks with the comment above them, links.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { REPO_ROOT } from './paths.ts';

const AT_THE_TOP = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'];
const FOLDERS = ['.github', 'src', 'workers', 'bench', 'test', 'scripts'];
const FENCE = '```';

/** Paths from the repository's root. */
export function documentPaths(): string[] {
  const below = FOLDERS.flatMap((folder) =>
    readdirSync(join(REPO_ROOT, folder), { recursive: true, encoding: 'utf8' }).map((path) => `${folder}/${path}`),
  );
  return [...AT_THE_TOP, ...below.filter((path) => path.endsWith('.md')).sort()];
}

export function readDocument(path: string): string {
  return readFileSync(join(REPO_ROOT, path), 'utf8');
}

/** A fenced block of code. */
export interface Block {
  /** The line of the heading above it. */
  readonly heading: string;
  /** As the fence names it: sh, toml; '' for a drawing. */
  readonly language: string;
  /** The comment in the line above the fence; undefined when there is none. */
  readonly comment: string | undefined;
  readonly lines: readonly string[];
}

export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split('\n');
  let heading = '';
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] ?? '';
    if (/^#{1,6} /.test(line)) heading = line;
    if (!line.trimStart().startsWith(FENCE)) continue;
    const end = lines.findIndex((later, at) => at > i && later.trim() === FENCE);
    assert(end > i, `a block below "${heading}" does not end`);
    const language = line.trim().slice(FENCE.length);
    const comment = /^<!-- (.*) -->$/.exec((lines[i - 1] ?? '').trim())?.[1];
    blocks.push({ heading, language, comment, lines: lines.slice(i + 1, end) });
    i = end;
  }
  return blocks;
}

/** The text without blocks of code: what people read as sentences, headings and tables. */
export function proseOf(markdown: string): string[] {
  let inside = false;
  return markdown.split('\n').filter((line) => {
    const isFence = line.trimStart().startsWith(FENCE);
    if (isFence) inside = !inside;
    return !isFence && !inside;
  });
}

/** The lines below a heading, up to the next heading. */
export function sectionOf(markdown: string, heading: string): string[] {
  const lines = markdown.split('\n');
  const start = lines.indexOf(heading);
  assert(start >= 0, `there is no heading "${heading}"`);
  const rest = lines.slice(start + 1);
  let inside = false;
  const end = rest.findIndex((line) => {
    if (line.trimStart().startsWith(FENCE)) inside = !inside;
    return !inside && /^#{1,6} /.test(line);
  });
  return end < 0 ? rest : rest.slice(0, end);
}

/** Anchors of the headings, as GitHub makes them. */
export function anchorsOf(markdown: string): Set<string> {
  const headings = proseOf(markdown).filter((line) => /^#{1,6} /.test(line));
  return new Set(headings.map((line) => slug(line.replace(/^#+ /, ''))));
}

function slug(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

/** Targets of the links in the text. */
export function linksOf(markdown: string): string[] {
  const text = proseOf(markdown)
    .join('\n')
    .replaceAll(/`[^`\n]*`/g, '`');
  return [...text.matchAll(/\]\(([^()\s]+)\)/g)].map((match) => match[1] ?? '');
}

/** Text in backquotes, and the commands in shell blocks. */
export function codeOf(markdown: string): string[] {
  const spans = [
    ...proseOf(markdown)
      .join('\n')
      .matchAll(/`([^`\n]+)`/g),
  ].map((match) => match[1] ?? '');
  const shell = blocksOf(markdown).filter(({ language }) => language === 'sh');
  return [...spans, ...shell.flatMap(({ lines }) => lines)];
}
