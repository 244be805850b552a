/**
 * `release TAG`: checks that the tag, package.json and CHANGELOG.md name one version, and prints its notes: what the
 * changelog says below `## VERSION`.
 */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { VERSION } from '../src/config/version.ts';

/** Throws an error with a sentence. */
export function releaseNotes(tag: string, version: string, changelog: string): string {
  if (tag !== `v${version}`)
    throw new Error(`the tag is ${tag}, and package.json says ${version}: expected v${version}`);
  const lines = changelog.split('\n');
  const heading = new RegExp(`^## ${version.replaceAll('.', '\\.')}( |$)`);
  const first = lines.findIndex((line) => heading.test(line));
  if (first < 0) throw new Error(`CHANGELOG.md has no section "## ${version}": rename "## Unreleased"`);
  const after = lines.findIndex((line, i) => i > first && line.startsWith('## '));
  const notes = lines
    .slice(first + 1, after < 0 ? undefined : after)
    .join('\n')
    .trim();
  if (notes === '') throw new Error(`the section "## ${version}" of CHANGELOG.md is empty`);
  return `${notes}\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    process.stdout.write(releaseNotes(process.argv[2] ?? '', VERSION, readFileSync('CHANGELOG.md', 'utf8')));
  } catch (error) {
    process.stderr.write(`release: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
