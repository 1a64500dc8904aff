//! Pictures: looked at by their header first, decoded under a bound, turned the way they are meant to be seen, and made
//! small enough for a model.
//!
//! A picture that needs no change is given as it is, after it was decoded once: a damaged one is told here, not by the
//! model's provider.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helve_core::files::Page;
use helve_core::{Content, ErrorKind, Limits, Output, ToolError};
use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};

use super::facts::{Facts, ImageFacts, Kind};

/// The qualities that are tried for a JPEG, best first.
const QUALITIES: [u8; 5] = [80, 65, 50, 40, 30];
/// How often a picture is made smaller by a quarter where no quality helps.
const SHRINKS: usize = 6;
/// Below this side nothing of a picture can be seen.
const LEAST_SIDE: u32 = 64;
/// Memory for a decoder beyond the pixels themselves. What a file holds besides, such as a colour profile that is packed a
/// thousandfold, is not unpacked further.
const DECODER_BYTES: u64 = 16 << 20;

/// What a picture is held to.
pub(super) struct Bounds {
    pixels: u64,
    side: u32,
    base64_bytes: usize,
}

impl Bounds {
    pub(super) fn new(limits: &Limits) -> Bounds {
        Bounds {
            pixels: limits.image_pixels,
            side: u32::try_from(limits.image_side).unwrap_or(u32::MAX).max(LEAST_SIDE),
            base64_bytes: usize::try_from(limits.image_base64_bytes).unwrap_or(usize::MAX),
        }
    }
}

/// A picture for a model.
pub(super) struct Shown {
    /// In base64; none if it could not be made small enough.
    data: Option<String>,
    media_type: &'static str,
    facts: ImageFacts,
}

/// The result for a picture.
pub(super) fn output(page: &Page, shown: Shown) -> Output {
    let ImageFacts { width, height, shown_width, shown_height } = shown.facts;
    let mut text = format!("Read image file [{}]", shown.media_type);
    if shown.data.is_none() {
        text.push_str("\n[Image omitted: could not be resized below the inline image size limit.]");
    } else if (width, height) != (shown_width, shown_height) {
        let scale = f64::from(width) / f64::from(shown_width.max(1));
        text.push_str(&format!(
            "\n[Image: original {width}x{height}, displayed at {shown_width}x{shown_height}. Multiply coordinates by \
             {scale:.2} to map to original image.]"
        ));
    }
    let facts = Facts {
        size: Some(page.stat.len),
        mime_type: Some(shown.media_type.to_owned()),
        image: Some(shown.facts),
        ..Facts::new(Kind::Image, &page.path)
    };
    let mut output = Output::text(text).with_details(crate::details(&facts));
    if let Some(data) = shown.data {
        output.content.push(Content::image(data, shown.media_type));
    }
    output
}

/// Makes a picture of a file's bytes.
pub(super) fn show(bytes: &[u8], bounds: &Bounds) -> Result<Shown, ToolError> {
    let (picture, format, orientation) = decode(bytes, bounds)?;
    let (width, height) = (picture.width(), picture.height());
    let facts = |shown: &DynamicImage| ImageFacts {
        width,
        height,
        shown_width: shown.width(),
        shown_height: shown.height(),
    };
    let as_it_is = match format {
        ImageFormat::Png => Some("image/png"),
        ImageFormat::Jpeg => Some("image/jpeg"),
        ImageFormat::WebP => Some("image/webp"),
        // Of an animation the first picture is given; nobody reads BMP.
        _ => None,
    };
    let fits =
        width <= bounds.side && height <= bounds.side && base64_len(bytes.len()) <= bounds.base64_bytes;
    if let Some(media_type) = as_it_is
        && fits
        && orientation == Orientation::NoTransforms
    {
        return Ok(Shown { data: Some(STANDARD.encode(bytes)), media_type, facts: facts(&picture) });
    }
    let mut picture = if width > bounds.side || height > bounds.side {
        picture.thumbnail(bounds.side, bounds.side)
    } else {
        picture
    };
    // Photographs stay photographs; everything else keeps its edges as long as it fits.
    let exact = format != ImageFormat::Jpeg;
    for _ in 0..SHRINKS {
        if let Some((data, media_type)) = encode(&picture, exact, bounds.base64_bytes) {
            return Ok(Shown { data: Some(data), media_type, facts: facts(&picture) });
        }
        let side = picture.width().max(picture.height()) / 4 * 3;
        if side < LEAST_SIDE {
            break;
        }
        picture = picture.thumbnail(side, side);
    }
    Ok(Shown { data: None, media_type: as_it_is.unwrap_or("image/png"), facts: facts(&picture) })
}

/// The picture the way it is meant to be seen.
fn decode(bytes: &[u8], bounds: &Bounds) -> Result<(DynamicImage, ImageFormat, Orientation), ToolError> {
    let (width, height) = open(bytes, DECODER_BYTES)?.0.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels > bounds.pixels {
        let message = format!(
            "The picture has {width}x{height} = {pixels} pixels, the limit is {} (image_pixels).",
            bounds.pixels
        );
        return Err(
            ToolError::new(ErrorKind::TooLarge, message).hint("Make a smaller copy of it and read that.")
        );
    }
    let (mut decoder, format) = open(bytes, pixels.saturating_mul(8).saturating_add(DECODER_BYTES))?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    picture.apply_orientation(orientation);
    Ok((picture, format, orientation))
}

/// Reads what comes before the pixels, in so much memory.
fn open(bytes: &[u8], memory: u64) -> Result<(impl ImageDecoder + '_, ImageFormat), ToolError> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| damaged(image::ImageError::IoError(error)))?;
    let format = reader.format().unwrap_or(ImageFormat::Png);
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(memory);
    reader.limits(limits);
    Ok((reader.into_decoder().map_err(damaged)?, format))
}

fn damaged(error: image::ImageError) -> ToolError {
    ToolError::failed(format!("The picture could not be decoded: {error}."))
        .hint("The file is probably damaged or not what its first bytes say.")
}

/// The picture in base64 if it fits: as PNG where that is wanted or it has holes, else as JPEG.
fn encode(picture: &DynamicImage, exact: bool, most: usize) -> Option<(String, &'static str)> {
    let has_alpha = picture.color().has_alpha();
    if exact || has_alpha {
        let mut bytes = Cursor::new(Vec::new());
        let eight_bits = if has_alpha {
            DynamicImage::ImageRgba8(picture.to_rgba8())
        } else {
            DynamicImage::ImageRgb8(picture.to_rgb8())
        };
        eight_bits.write_to(&mut bytes, ImageFormat::Png).ok()?;
        let bytes = bytes.into_inner();
        if base64_len(bytes.len()) <= most {
            return Some((STANDARD.encode(bytes), "image/png"));
        }
        if has_alpha {
            return None;
        }
    }
    let colours = DynamicImage::ImageRgb8(picture.to_rgb8());
    for quality in QUALITIES {
        let mut bytes = Vec::new();
        colours.write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, quality)).ok()?;
        if base64_len(bytes.len()) <= most {
            return Some((STANDARD.encode(bytes), "image/jpeg"));
        }
    }
    None
}

fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of one point with a colour profile of zeros.
    fn with_profile(bytes: usize) -> Vec<u8> {
        let mut whole = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(1, 1).write_to(&mut whole, ImageFormat::Png).unwrap();
        let whole = whole.into_inner();
        let mut chunk = b"iCCPx\0\0".to_vec();
        chunk.extend(miniz_oxide::deflate::compress_to_vec_zlib(&vec![0; bytes], 1));
        let length = u32::try_from(chunk.len() - 4).unwrap();
        // Behind the signature and the first chunk.
        let (head, rest) = whole.split_at(33);
        let sum = checksum(&chunk);
        [head, &length.to_be_bytes(), &chunk, &sum.to_be_bytes(), rest].concat()
    }

    /// The sum at the end of a chunk.
    fn checksum(bytes: &[u8]) -> u32 {
        let step = |sum: u32, byte: &u8| {
            (0..8)
                .fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
        };
        !bytes.iter().fold(u32::MAX, step)
    }

    #[test]
    fn a_colour_profile_is_unpacked_only_as_far_as_the_picture_deserves() {
        let profile = |bytes: &[u8]| {
            let memory = 8 + DECODER_BYTES;
            open(bytes, memory).unwrap().0.icc_profile().unwrap().map(|profile| profile.len())
        };
        assert_eq!(profile(&with_profile(1_000)), Some(1_000));
        let bomb = with_profile(20 << 20);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        assert_eq!(profile(&bomb), None);
        let bounds = Bounds { pixels: 40_000_000, side: 100, base64_bytes: 1 << 20 };
        assert_eq!(show(&bomb, &bounds).unwrap().facts.width, 1);
    }
}
