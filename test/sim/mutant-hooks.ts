/**
 * Module hooks for mutants.ts: a module that is asked for with `?mutant=NAME` gets its imports from this project with the same
 * mark, and the one file that the mutant is about comes with its text replaced. Runs on a thread of its own.
 */
import { Buffer } from 'node:buffer';
import type { LoadHook, ResolveHook } from 'node:module';
import { PLANTS } from './mutants.ts';

const MARK = /\?mutant=([a-z-]+)$/;

export const resolve: ResolveHook = async (specifier, context, next) => {
  const resolved = await next(specifier, context);
  const mark = MARK.exec(context.parentURL ?? '')?.[0];
  const isOurs = resolved.url.startsWith('file:') && !resolved.url.includes('/node_modules/');
  if (mark === undefined || !isOurs || resolved.url.includes('?')) return resolved;
  return { ...resolved, url: resolved.url + mark };
};

export const load: LoadHook = async (url, context, next) => {
  const loaded = await next(url, context);
  const name = MARK.exec(url)?.[1];
  const mutant = name === undefined ? undefined : PLANTS[name];
  if (mutant === undefined || !url.includes(`/${mutant.file}.js?`)) return loaded;
  const { source } = loaded;
  const text = typeof source === 'string' ? source : Buffer.from(source as Uint8Array).toString();
  const [before, after, more] = text.split(mutant.from);
  // The code has changed: the mutant has to be planted anew.
  if (after === undefined || more !== undefined)
    throw new Error(`mutant ${name}: not once in ${mutant.file}: ${mutant.from}`);
  return { ...loaded, source: before + mutant.to + after };
};
