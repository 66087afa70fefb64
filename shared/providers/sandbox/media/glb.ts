import { png } from './media.ts'

/** A cube with sides of one metre on the ground: four corners per side, so that each side has its own normal. */

const sides: { normal: Point; right: Point; up: Point }[] = [
  { normal: [0, 0, 1], right: [1, 0, 0], up: [0, 1, 0] },
  { normal: [0, 0, -1], right: [-1, 0, 0], up: [0, 1, 0] },
  { normal: [1, 0, 0], right: [0, 0, -1], up: [0, 1, 0] },
  { normal: [-1, 0, 0], right: [0, 0, 1], up: [0, 1, 0] },
  { normal: [0, 1, 0], right: [1, 0, 0], up: [0, 0, -1] },
  { normal: [0, -1, 0], right: [1, 0, 0], up: [0, 0, 1] },
]
type Point = readonly [number, number, number]
/** Corners of a side, counter-clockwise from its lower left: how far right and up. */
const corners = [
  [0, 0],
  [1, 0],
  [1, 1],
  [0, 1],
] as const
const textureSide = 64

export type MeshOptions = {
  /** With a PNG as its base colour; otherwise a plain colour. */
  texture: boolean
}

type Vertex = { position: Point; normal: Point; uv: readonly [number, number] }

function vertices(): Vertex[] {
  return sides.flatMap(({ normal, right, up }) =>
    corners.map(([u, v]) => {
      const at = (axis: 0 | 1 | 2) => normal[axis] / 2 + right[axis] * (u - 0.5) + up[axis] * (v - 0.5)
      return { position: [at(0), at(1) + 0.5, at(2)], normal, uv: [u, v] } satisfies Vertex
    }),
  )
}

/** Two triangles per side, as indices of `vertices`. */
const triangles = sides.flatMap((_, side) => [0, 1, 2, 0, 2, 3].map(corner => side * corners.length + corner))

/** The texture of the mesh as a PNG file. */
export function textureFile(): Buffer {
  return png(textureSide)
}

/** The mesh as a binary glTF 2.0 file. */
export function meshFile({ texture }: MeshOptions = { texture: true }): Buffer {
  const all = vertices()
  const floats = (numbers: number[]) => Buffer.from(Float32Array.from(numbers).buffer)
  const parts = [
    { bytes: floats(all.flatMap(({ position }) => position)), target: arrayBuffer },
    { bytes: floats(all.flatMap(({ normal }) => normal)), target: arrayBuffer },
    // glTF texture coordinates start at the top of the image.
    ...(texture ? [{ bytes: floats(all.flatMap(({ uv: [u, v] }) => [u, 1 - v])), target: arrayBuffer }] : []),
    { bytes: Buffer.from(Uint16Array.from(triangles).buffer), target: elementArrayBuffer },
    ...(texture ? [{ bytes: textureFile(), target: undefined }] : []),
  ]
  let byteOffset = 0
  const bufferViews = parts.map(({ bytes, target }) => {
    const view = { buffer: 0, byteOffset, byteLength: bytes.length, ...(target && { target }) }
    byteOffset += padded(bytes, 0).length
    return view
  })
  const binary = Buffer.concat(parts.map(({ bytes }) => padded(bytes, 0)))
  const description = { ...document(all, texture), bufferViews, buffers: [{ byteLength: binary.length }] }
  const json = chunk('JSON', padded(Buffer.from(JSON.stringify(description)), 0x20))
  const body = Buffer.concat([json, chunk('BIN\0', binary)])
  const header = Buffer.alloc(12)
  header.write('glTF', 0, 'latin1')
  header.writeUInt32LE(2, 4)
  header.writeUInt32LE(header.length + body.length, 8)
  return Buffer.concat([header, body])
}

/** OpenGL constants: the target of a buffer view, and the component type of an accessor. */
const arrayBuffer = 34_962
const elementArrayBuffer = 34_963
const float = 5_126
const unsignedShort = 5_123

/**
 * The file's description of its buffer: the views in the order position, normal, (texture coordinate), index, (image).
 */
function document(all: Vertex[], texture: boolean) {
  const bound = (of: (...numbers: number[]) => number) =>
    ([0, 1, 2] as const).map(axis => of(...all.map(({ position }) => position[axis])))
  const vertexData = { componentType: float, count: all.length }
  const accessors = [
    { ...vertexData, type: 'VEC3', min: bound(Math.min), max: bound(Math.max) },
    { ...vertexData, type: 'VEC3' },
    ...(texture ? [{ ...vertexData, type: 'VEC2' }] : []),
    { componentType: unsignedShort, count: triangles.length, type: 'SCALAR' },
  ].map((accessor, bufferView) => ({ bufferView, ...accessor }))
  const indices = accessors.length - 1
  const attributes = { POSITION: 0, NORMAL: 1, ...(texture && { TEXCOORD_0: 2 }) }
  const colour = texture ? { baseColorTexture: { index: 0 } } : { baseColorFactor: [0.4, 0.4, 0.4, 1] }
  return {
    asset: { version: '2.0', generator: 'Headgate sandbox' },
    scene: 0,
    scenes: [{ nodes: [0] }],
    nodes: [{ mesh: 0, name: 'cube' }],
    meshes: [{ primitives: [{ attributes, indices, material: 0 }] }],
    materials: [{ name: 'cube', pbrMetallicRoughness: { ...colour, metallicFactor: 0, roughnessFactor: 0.8 } }],
    accessors,
    ...(texture && {
      textures: [{ source: 0, sampler: 0 }],
      samplers: [{}],
      images: [{ bufferView: indices + 1, mimeType: 'image/png' }],
    }),
  }
}

function padded(bytes: Buffer, fill: number): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3, fill)])
}

function chunk(type: string, bytes: Buffer): Buffer {
  const header = Buffer.alloc(8)
  header.writeUInt32LE(bytes.length, 0)
  header.write(type, 4, 'latin1')
  return Buffer.concat([header, bytes])
}

/** The mesh as a Wavefront OBJ file with the material of `cube.mtl`. */
export function objFile(): Buffer {
  const all = vertices()
  const faces = sides.map((_, side) => {
    const numbers = corners.map((_, corner) => side * corners.length + corner + 1)
    return `f ${numbers.map(n => `${n}/${n}/${n}`).join(' ')}`
  })
  const lines = [
    'mtllib cube.mtl',
    'o cube',
    ...all.map(({ position }) => `v ${position.join(' ')}`),
    ...all.map(({ uv }) => `vt ${uv.join(' ')}`),
    ...all.map(({ normal }) => `vn ${normal.join(' ')}`),
    'usemtl cube',
    ...faces,
  ]
  return Buffer.from(`${lines.join('\n')}\n`)
}

/** Its material as a Wavefront MTL file, with `texture.png` if it is textured. */
export function mtlFile({ texture }: MeshOptions): Buffer {
  const lines = ['newmtl cube', 'Kd 0.4 0.4 0.4', 'illum 1', ...(texture ? ['map_Kd texture.png'] : [])]
  return Buffer.from(`${lines.join('\n')}\n`)
}
