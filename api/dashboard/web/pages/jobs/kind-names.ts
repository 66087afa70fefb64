import type { JobKind } from '../../../wire/jobs.ts'

/** The display names of kinds of jobs. */
export const kindNames: Record<JobKind, string> = {
  video: 'Video',
  lipsync: 'Lip sync',
  face_swap: 'Face swap',
  avatar: 'Avatar video',
  mesh: '3D mesh',
  async: 'Delayed job',
}
