import { createRequire } from 'node:module'
import { BufferSource, Input, MP4 } from 'mediabunny'

/** Opens a result as its users would, so that an example fails when the file is broken. */

type Validation = {
  issues: { numErrors: number; numWarnings: number; messages: { code: string; pointer?: string }[] }
  info: { totalTriangleCount: number; hasTextures: boolean }
}
// The Khronos validator has no type declarations.
const validator = createRequire(import.meta.url)('gltf-validator') as {
  validateBytes(bytes: Uint8Array): Promise<Validation>
}

/** Length in seconds and size in pixels of an MP4 file. Throws when it has no video that can be read. */
export async function readVideo(bytes: Uint8Array): Promise<{ durationS: number; width: number; height: number }> {
  using input = new Input({ source: new BufferSource(bytes), formats: [MP4] })
  const track = await input.getPrimaryVideoTrack()
  if (!track) throw new Error('the file has no video')
  return { durationS: await input.computeDuration(), width: track.displayWidth, height: track.displayHeight }
}

/** Facts about a GLB file. Throws with what the Khronos validator finds wrong. */
export async function readMesh(bytes: Uint8Array): Promise<{ triangles: number; textured: boolean }> {
  const { issues, info } = await validator.validateBytes(bytes)
  const { numErrors, numWarnings, messages } = issues
  if (numErrors + numWarnings > 0) {
    const found = messages.map(({ code, pointer = '/' }) => `${code} at ${pointer}`).join(', ')
    throw new Error(`the GLB file is not valid: ${found}`)
  }
  return { triangles: info.totalTriangleCount, textured: info.hasTextures }
}
