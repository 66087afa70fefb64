#!/bin/sh
# Makes the files that the sandbox answers with; needs ffmpeg with libx264, and npx. `sh make.sh`, then commit what changed.
set -eu
cd "$(dirname "$0")"

# Colour bars in every size that a model of the catalog can be asked for. The first picture is followed by 16 copies of
# it, after which the numbers of the frames repeat. A coarse quantiser for the copies leaves them nothing to add.
sizes='
  640x480 480x640 480x480 854x480 480x854 1120x480
  960x720 720x960 720x720 1280x720 720x1280 1680x720 900x720 720x900
  1366x768
  1440x1080 1080x1440 1080x1080 1920x1080 1080x1920 2520x1080 1350x1080 1080x1350
  3840x2160 2160x3840 2160x2160 2700x2160 2160x2700'
mkdir -p video
for size in $sizes; do
  ffmpeg -v error -y -f lavfi -i "smptehdbars=size=$size:rate=10" -frames:v 17 \
    -c:v libx264 -profile:v main -pix_fmt yuv420p -preset veryslow -threads 1 \
    -x264-params 'qp=51:ipratio=5.6:ref=1:bframes=0:scenecut=0:weightp=0:no-deblock=1' \
    -bsf:v filter_units=remove_types=6 -fflags +bitexact -movflags +faststart "video/$size.mp4"
  pictures=$(ffmpeg -v error -i "video/$size.mp4" -f framemd5 - | grep -v '^#' | awk '{ print $NF }' | sort -u | wc -l)
  [ "$pictures" = 1 ] || { echo "the pictures of $size differ" >&2; exit 1; }
done

# cube.obj, cube.mtl and cube-textured.mtl are written by hand: a cube with sides of one metre on the ground.
folder=$(mktemp -d)
ffmpeg -v error -f lavfi -i color=0x666666:size=64x64 -frames:v 1 -pix_fmt rgb24 -fflags +bitexact "$folder/square.png"
# Without pHYs, 21 bytes after the header: a texture has no density.
{ head -c 33 "$folder/square.png"; tail -c +55 "$folder/square.png"; } > texture.png
cp texture.png "$folder"
for name in cube cube-textured; do
  cp "$name.mtl" "$folder/cube.mtl"
  cp cube.obj "$folder"
  # The plain cube has no texture coordinates.
  [ "$name" = cube-textured ] || sed -i '/^vt/d; s#/[0-9]*/#//#g' "$folder/cube.obj"
  npx --yes obj2gltf@3 --binary --input "$folder/cube.obj" --output "$name.glb"
done
rm -r "$folder"
