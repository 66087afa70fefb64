import type { ModelRow } from '../catalog/schema.ts'
import type { QualityOffsets } from '../feedback/offsets.ts'
import type { Task } from './task.ts'

/**
 * The quality of a model for a task: the catalog's figure for the class of the task, else its general one, from 0 to 100,
 * and the offset learned from feedback. The router reads a model's quality only here.
 */
export function qualityOf(
  model: ModelRow,
  task: Task,
  offsets: QualityOffsets | null,
): { listedQuality: number; learned: number } {
  const ofTask = task === 'general' ? undefined : model.task_qualities?.[task]
  return { listedQuality: ofTask ?? model.quality ?? 0, learned: offsets?.get(model.id) ?? 0 }
}

/** A model's quality as candidates show it; null for a model without a figure. */
export function shownQuality({ quality }: ModelRow, { listedQuality }: { listedQuality: number }): number | null {
  return quality === null ? null : listedQuality
}
