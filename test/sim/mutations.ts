/** Bugs planted on purpose: the simulator must find each of them. */
import type { Mutation } from './world.ts';

export const MUTATIONS: Readonly<Record<string, () => Mutation>> = {};
