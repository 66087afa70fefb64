import { fileTypeFromBuffer } from 'file-type'
import { readMesh } from '../../examples/files.ts'
import { meshFile, mtlFile, objFile, textureFile } from '../../shared/providers/sandbox/media/glb.ts'
import { test } from '../support/test.ts'

for (const texture of [true, false]) {
  test(`valid: a GLB ${texture ? 'with' : 'without'} a texture, for which the validator has no word`, async t => {
    const file = meshFile({ texture })
    t.deepEqual(await readMesh(file), { triangles: 12, textured: texture })
    t.is((await fileTypeFromBuffer(file))?.mime, 'model/gltf-binary')
    t.true(file.length < 5_000)
  })
}

test('invalid: a GLB with a byte changed is noticed', async t => {
  const file = meshFile({ texture: false })
  // The first index of the last buffer view now names a vertex that is not there.
  file.writeUInt16LE(60_000, file.length - 72)
  await t.throwsAsync(readMesh(file), { message: /not valid: ACCESSOR_INDEX_OOB/ })
})

type Point = [number, number, number]
const minus = ([a, b, c]: Point, [x, y, z]: Point): Point => [a - x, b - y, c - z]
const cross = ([a, b, c]: Point, [x, y, z]: Point): Point => [b * z - c * y, c * x - a * z, a * y - b * x]

test('valid: every face of the OBJ names vertices that are there and looks along its normal', t => {
  const lines = objFile().toString().trimEnd().split('\n')
  const rows = (word: string) => lines.filter(line => line.startsWith(`${word} `)).map(line => line.split(' ').slice(1))
  const points = (word: string) => rows(word).map(row => row.map(Number) as Point)
  const positions = points('v')
  const normals = points('vn')
  t.is(rows('vt').length, positions.length)
  const faces = rows('f').map(row => row.map(corner => corner.split('/').map(Number) as Point))
  t.is(faces.length, 6)
  for (const face of faces) {
    const [a, b, c] = face.map(([v]) => positions[v - 1]!) as [Point, Point, Point]
    for (const [, , vn] of face) t.deepEqual(cross(minus(b, a), minus(c, b)).map(String), normals[vn - 1]!.map(String))
  }
})

test('valid: the OBJ uses the material that its MTL has, and that one the texture', async t => {
  const [, library] = /^mtllib (.+)$/m.exec(objFile().toString())!
  const [, used] = /^usemtl (.+)$/m.exec(objFile().toString())!
  t.is(library, 'cube.mtl')
  t.regex(mtlFile({ texture: true }).toString(), new RegExp(`^newmtl ${used}$`, 'm'))
  t.regex(mtlFile({ texture: true }).toString(), /^map_Kd texture\.png$/m)
  t.notRegex(mtlFile({ texture: false }).toString(), /map_Kd/)
  t.is((await fileTypeFromBuffer(textureFile()))?.mime, 'image/png')
})
